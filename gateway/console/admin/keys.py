"""`/admin/keys`: list, issue, change, rotate and revoke API keys."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeVar

import msgspec
from litestar import Request, Response, delete, get, patch, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Meta, Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import SCHEME, made_by, principal_of
from strowger_gateway.gateway.governance.issued_keys.authority import (
    MOST_AT_ONCE,
    KeyAuthority,
    KeyBatch,
    KeyFields,
)
from strowger_gateway.gateway.governance.issued_keys.desk import KeyDesk
from strowger_gateway.gateway.governance.issued_keys.process_side import KeysSide
from strowger_gateway.gateway.governance.issued_keys.view import (
    KeyDetails,
    KeyListing,
    KeyView,
    NewKeysView,
    NewKeyView,
    details,
    list_keys,
    view_of,
)
from strowger_gateway.gateway.surfaces.decoding import UNREADABLE
from strowger_gateway.gateway.surfaces.openapi.hot_routes import operation
from strowger_gateway.schemas.errors import Forbidden, InvalidRequest, Unavailable

_Request = Request[object, object, State]
_T = TypeVar("_T")
_LARGEST = 262_144
_UNCACHED = {"cache-control": "no-store"}


class NewKeyBody(KeyFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """name: of the key, in logs, metrics and usage."""

    name: str


class NewKeysBody(KeyFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """names: of keys that get the same fields."""

    names: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MOST_AT_ONCE)]


class RotateBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """overlap_s: how long the old secret stays valid besides the new one, seconds."""

    overlap_s: float = 0.0


_new = msgspec.json.Decoder(NewKeyBody)
_several = msgspec.json.Decoder(NewKeysBody)
_fields = msgspec.json.Decoder(KeyFields)
_rotate = msgspec.json.Decoder(RotateBody)


def key_routes(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    return [*_reading(current), *_issuing(current), *_changing(current)]


def _reading(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @get("/keys", summary="All API keys, without secrets", role="viewer", security=[{SCHEME: []}])
    async def listed() -> KeyListing:
        return await key_desk(current()).read(partial(list_keys, config=current().runtime.config))

    @get(
        "/keys/{name:str}",
        summary="A key, and whether its last change is in effect everywhere",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def show(name: FromPath[str]) -> KeyDetails:
        def found(keys: KeyAuthority) -> KeyDetails:
            return details(keys.find(name), keys.rows.readers(), current().runtime.config)

        return await key_desk(current()).read(found)

    return [listed, show]


def _issuing(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @post(
        "/keys",
        status_code=200,
        request_max_body_size=_LARGEST,
        role="operator",
        security=[{SCHEME: []}],
        operation_class=operation("Issue a key; its secret is in this answer only", NewKeyBody),
    )
    async def create(request: _Request) -> Response[NewKeyView]:
        body, by = _decoded(_new, await request.body()), made_by(current(), request.scope)
        permit = team_permit(request)
        made = await key_desk(current()).change(
            lambda keys: keys.create(body.name, body, by, permit)
        )
        view = NewKeyView(key=view_of(made.key, current().runtime.config), secret=made.secret)
        return Response(view, status_code=200, headers=_UNCACHED)

    @post(
        "/keys/batch",
        status_code=200,
        request_max_body_size=_LARGEST,
        role="operator",
        security=[{SCHEME: []}],
        operation_class=operation("Issue several keys with the same fields", NewKeysBody),
    )
    async def create_all(request: _Request) -> Response[NewKeysView]:
        body, by = _decoded(_several, await request.body()), made_by(current(), request.scope)
        permit = team_permit(request)
        made = await key_desk(current()).change(
            lambda keys: keys.create_all(body.names, body, by, permit)
        )
        return Response(_several_view(made, current()), status_code=200, headers=_UNCACHED)

    @post(
        "/keys/{name:str}/rotate",
        status_code=200,
        request_max_body_size=_LARGEST,
        role="operator",
        security=[{SCHEME: []}],
        operation_class=operation(
            "Give a key a new secret; its old one stays valid for `overlap_s`", RotateBody
        ),
    )
    async def rotate(name: FromPath[str], request: _Request) -> Response[NewKeyView]:
        data = await request.body()
        body, by = _decoded(_rotate, data or b"{}"), made_by(current(), request.scope)
        permit = team_permit(request)
        made = await key_desk(current()).change(
            lambda keys: keys.rotate(name, body.overlap_s, by, permit)
        )
        view = NewKeyView(key=view_of(made.key, current().runtime.config), secret=made.secret)
        return Response(view, status_code=200, headers=_UNCACHED)

    return [create, create_all, rotate]


def _several_view(made: KeyBatch, gateway: Gateway) -> NewKeysView:
    config = gateway.runtime.config
    return NewKeysView(
        keys=tuple(
            NewKeyView(key=view_of(one.key, config), secret=one.secret) for one in made.issued
        ),
        failed=made.failed,
    )


def _changing(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @patch(
        "/keys/{name:str}",
        status_code=200,
        request_max_body_size=_LARGEST,
        role="operator",
        security=[{SCHEME: []}],
        operation_class=operation("Change fields of a key; the others stay", KeyFields),
    )
    async def change(name: FromPath[str], request: _Request) -> KeyView:
        fields, by = _decoded(_fields, await request.body()), made_by(current(), request.scope)
        permit = team_permit(request)
        key = await key_desk(current()).change(lambda keys: keys.change(name, fields, by, permit))
        return view_of(key, current().runtime.config)

    @delete(
        "/keys/{name:str}",
        status_code=200,
        summary="Revoke a key for ever",
        role="operator",
        security=[{SCHEME: []}],
    )
    async def revoke(name: FromPath[str], request: _Request) -> KeyView:
        by, permit = made_by(current(), request.scope), team_permit(request)
        key = await key_desk(current()).change(lambda keys: keys.revoke(name, by, permit))
        return view_of(key, current().runtime.config)

    return [change, revoke]


def key_desk(gateway: Gateway) -> KeyDesk:
    """Raises Unavailable without a store."""
    desk = gateway.side(KeysSide).desk
    if desk is None:
        raise Unavailable("issued keys require a store, and this gateway has none")
    return desk


def team_permit(request: _Request) -> Callable[[str], None]:
    """Return a check of the teams of keys before a change; it raises Forbidden."""
    who = principal_of(request.scope)

    def permit(team: str) -> None:
        if not who.manages(team):
            teams = ", ".join(who.teams) or "none"
            raise Forbidden(
                f"team: an operator manages the keys of its own teams only ({teams}); this is a "
                + (f"key of the team {team!r}" if team else "key without a team"),
                code="team_not_allowed",
                param="team",
            )

    return permit


def _decoded(decoder: msgspec.json.Decoder[_T], data: bytes) -> _T:
    try:
        return decoder.decode(data)
    except UNREADABLE as exc:
        raise InvalidRequest(f"cannot read the body: {exc}") from exc
