"""`/admin/keys`: list, issue, change, rotate and revoke API keys."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
from litestar import Request, Response, delete, get, patch, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import Struct

from gateway.admin.access import SCHEME
from gateway.issued_keys.authority import KeyAuthority, KeyFields
from gateway.issued_keys.desk import KeyDesk
from gateway.issued_keys.view import (
    KeyDetails,
    KeyListing,
    KeyView,
    NewKeyView,
    details,
    listing,
    view_of,
)
from gateway.openapi.hot_routes import operation
from gateway.state import Gateway
from gateway.surfaces.decoding import UNREADABLE
from schemas.errors import InvalidRequest, Unavailable

_Request = Request[object, object, State]
_T = TypeVar("_T")
_LARGEST = 262_144
_UNCACHED = {"cache-control": "no-store"}


class NewKeyBody(KeyFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """name: of the key, in logs, metrics and usage."""

    name: str


class RotateBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """overlap_s: how long the old secret stays valid besides the new one, seconds."""

    overlap_s: float = 0.0


_new = msgspec.json.Decoder(NewKeyBody)
_fields = msgspec.json.Decoder(KeyFields)
_rotate = msgspec.json.Decoder(RotateBody)


def key_routes(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    return [*_reading(current), *_issuing(current), *_changing(current)]


def _reading(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @get("/keys", summary="All API keys, without secrets", security=[{SCHEME: []}])
    async def listed() -> KeyListing:
        found = await _desk(current()).read(lambda keys: keys.rows.all())
        return listing(found, current().runtime.config)

    @get(
        "/keys/{name:str}",
        summary="A key, and whether its last change is in effect everywhere",
        security=[{SCHEME: []}],
    )
    async def show(name: FromPath[str]) -> KeyDetails:
        def found(keys: KeyAuthority) -> KeyDetails:
            return details(keys.find(name), keys.rows.readers(), current().runtime.config)

        return await _desk(current()).read(found)

    return [listed, show]


def _issuing(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @post(
        "/keys",
        status_code=200,
        request_max_body_size=_LARGEST,
        security=[{SCHEME: []}],
        operation_class=operation("Issue a key; its secret is in this answer only", NewKeyBody),
    )
    async def create(request: _Request) -> Response[NewKeyView]:
        body, by = _decoded(_new, await request.body()), _by(request, current())
        made = await _desk(current()).change(lambda keys: keys.create(body.name, body, by))
        view = NewKeyView(key=view_of(made.key, current().runtime.config), secret=made.secret)
        return Response(view, status_code=200, headers=_UNCACHED)

    @post(
        "/keys/{name:str}/rotate",
        status_code=200,
        request_max_body_size=_LARGEST,
        security=[{SCHEME: []}],
        operation_class=operation(
            "Give a key a new secret; its old one stays valid for `overlap_s`", RotateBody
        ),
    )
    async def rotate(name: FromPath[str], request: _Request) -> Response[NewKeyView]:
        data = await request.body()
        body, by = _decoded(_rotate, data or b"{}"), _by(request, current())
        made = await _desk(current()).change(lambda keys: keys.rotate(name, body.overlap_s, by))
        view = NewKeyView(key=view_of(made.key, current().runtime.config), secret=made.secret)
        return Response(view, status_code=200, headers=_UNCACHED)

    return [create, rotate]


def _changing(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @patch(
        "/keys/{name:str}",
        status_code=200,
        request_max_body_size=_LARGEST,
        security=[{SCHEME: []}],
        operation_class=operation("Change fields of a key; the others stay", KeyFields),
    )
    async def change(name: FromPath[str], request: _Request) -> KeyView:
        fields, by = _decoded(_fields, await request.body()), _by(request, current())
        key = await _desk(current()).change(lambda keys: keys.change(name, fields, by))
        return view_of(key, current().runtime.config)

    @delete(
        "/keys/{name:str}",
        status_code=200,
        summary="Revoke a key for ever",
        security=[{SCHEME: []}],
    )
    async def revoke(name: FromPath[str], request: _Request) -> KeyView:
        by = _by(request, current())
        key = await _desk(current()).change(lambda keys: keys.revoke(name, by))
        return view_of(key, current().runtime.config)

    return [change, revoke]


def _desk(gateway: Gateway) -> KeyDesk:
    if gateway.keys is None:
        raise Unavailable("issued keys require a store, and this gateway has none")
    return gateway.keys


def _by(request: _Request, gateway: Gateway) -> str:
    """Return who makes a change. The request carries the admin key: see `admin_only`."""
    scope = request.scope
    where = gateway.runtime.clients.of(scope) if scope["type"] == "http" else ""
    return f"admin key from {where}" if where else "admin key"


def _decoded(decoder: msgspec.json.Decoder[_T], data: bytes) -> _T:
    try:
        return decoder.decode(data)
    except UNREADABLE as exc:
        raise InvalidRequest(f"cannot read the body: {exc}") from exc
