"""`/admin/view/keys`: the keys in a browser, with forms that do what `/admin/keys` does."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final, Literal
from urllib.parse import quote

import msgspec
from litestar import Request, Response, get, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, QueryParameter

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import made_by, principal_of
from strowger_gateway.gateway.console.admin.governance.forms import FORM_BYTES, form_of, listed
from strowger_gateway.gateway.console.admin.governance.frame import shown
from strowger_gateway.gateway.console.admin.governance.key_details import KeyPart, key_section
from strowger_gateway.gateway.console.admin.governance.key_forms.form import MORE
from strowger_gateway.gateway.console.admin.governance.key_forms.issued import issued_section
from strowger_gateway.gateway.console.admin.governance.key_forms.key_fields import (
    ReadKey,
    changed_fields,
    read_key,
)
from strowger_gateway.gateway.console.admin.governance.key_list import KeyPage, key_list_section
from strowger_gateway.gateway.console.admin.keys import key_desk, team_permit
from strowger_gateway.gateway.console.admin.page.answers import redirect
from strowger_gateway.gateway.governance.issued_keys.authority import KeyAuthority, KeyFields
from strowger_gateway.gateway.governance.issued_keys.view import (
    KeyDetails,
    details,
    list_keys,
    listing,
    view_of,
    view_of_file_key,
)
from strowger_gateway.gateway.platform.language import sentence, words_of
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest, RouteNotFound

say = words_of(__file__)

_Request = Request[object, object, State]
_Act = Literal["change", "rotate", "enable", "disable", "revoke"]
_Done = Literal["", "changed", "same", "enabled", "disabled", "revoked"]
_DONE: Final[Mapping[_Done, str]] = {
    "": "",
    "changed": sentence("The key is changed."),
    "same": sentence("Nothing has changed."),
    "enabled": sentence("The key is enabled."),
    "disabled": sentence("The key is disabled."),
    "revoked": sentence("The key is revoked."),
}
_LONGEST: Final = 256


def key_view_routes(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    return [*_reading(current), *_changing(current)]


def _reading(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @get("/keys", role="viewer", include_in_schema=False)
    async def keys(
        request: _Request,
        q: Annotated[str, QueryParameter(max_length=_LONGEST)] = "",
        all: FromQuery[Literal["", "on"]] = "",
    ) -> Response[str]:
        return await _list(request, current(), q=q.strip(), all=all == "on")

    # A path, because keys of the configuration file may have a slash in their names.
    @get("/keys/{name:path}", role="viewer", include_in_schema=False)
    async def key(
        request: _Request, name: FromPath[str], done: FromQuery[_Done] = ""
    ) -> Response[str]:
        return await _key(request, current(), name.removeprefix("/"), done=say(_DONE[done]))

    return [keys, key]


def _changing(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @post(
        "/keys",
        role="operator",
        status_code=200,
        include_in_schema=False,
        request_max_body_size=FORM_BYTES,
    )
    async def create(request: _Request) -> Response[str]:
        gateway, fields = current(), await form_of(request)
        if MORE in fields:
            return await _list(request, gateway, fields=fields, more=fields[MORE])
        read = read_key(fields)
        if read.errors:
            return await _list(request, gateway, fields=fields, errors=read.errors)
        by, permit = made_by(gateway, request.scope), team_permit(request)
        names = listed(fields.get("names", "")) or (fields.get("name", ""),)
        try:
            made = await key_desk(gateway).change(
                lambda keys: keys.create_all(names, read.fields, by, permit)
            )
        except GatewayError as exc:
            errors = _errors(read, exc)
            return await _list(request, gateway, fields=fields, errors=errors, refused=exc)
        if len(names) > 1:
            return await shown(gateway, request, "Keys", [issued_section(made)])
        (one,) = made.issued
        return await _key(request, gateway, one.key.name, secret=one.secret)

    @post(
        "/keys/{name:path}",
        role="operator",
        status_code=200,
        include_in_schema=False,
        request_max_body_size=FORM_BYTES,
    )
    async def change(request: _Request, name: FromPath[str]) -> Response[str]:
        gateway, fields = current(), await form_of(request)
        name, _, act = name.removeprefix("/").rpartition("/")
        try:
            wanted = msgspec.convert(act, _Act)
        except msgspec.ValidationError:
            raise RouteNotFound(f"no route {request.scope['path']}") from None
        if wanted == "change":
            return await _change(request, gateway, name, fields)
        try:
            return await _act(request, gateway, name, wanted, fields)
        except GatewayError as exc:
            return await _key(request, gateway, name, refused=exc, fields=fields)

    return [create, change]


async def _act(
    request: _Request, gateway: Gateway, name: str, act: _Act, fields: Mapping[str, str]
) -> Response[str]:
    """Change a key as a form says; what it confirms is checked here, too."""
    if fields.get("confirm") != "yes":
        raise InvalidRequest("confirm the change by ticking its box", param="confirm")
    by, permit, desk = made_by(gateway, request.scope), team_permit(request), key_desk(gateway)
    if act == "rotate":
        overlap_s = _number(fields, "overlap_s", "0")
        made = await desk.change(lambda keys: keys.rotate(name, overlap_s, by, permit))
        return await _key(request, gateway, name, secret=made.secret)
    if act == "revoke":
        await desk.change(lambda keys: keys.revoke(name, by, permit))
        return redirect(f"/admin/view/keys/{quote(name, safe='')}?done=revoked")
    turned = KeyFields(disabled=act == "disable")
    await desk.change(lambda keys: keys.change(name, turned, by, permit))
    return redirect(f"/admin/view/keys/{quote(name, safe='')}?done={act}d")


async def _change(
    request: _Request, gateway: Gateway, name: str, fields: Mapping[str, str]
) -> Response[str]:
    """Change the fields of a key that differ from what it has."""
    if MORE in fields:
        return await _key(request, gateway, name, fields=fields, more=fields[MORE])
    read = read_key(fields)
    if read.errors:
        return await _key(request, gateway, name, fields=fields, errors=read.errors)
    by, permit, desk = made_by(gateway, request.scope), team_permit(request), key_desk(gateway)
    config = gateway.runtime.config

    def changed(keys: KeyAuthority) -> bool:
        wanted = changed_fields(read.fields, view_of(keys.find(name), config))
        if wanted == KeyFields():
            return False
        keys.change(name, wanted, by, permit)
        return True

    try:
        done = "changed" if await desk.change(changed) else "same"
    except GatewayError as exc:
        errors = _errors(read, exc)
        return await _key(request, gateway, name, refused=exc, fields=fields, errors=errors)
    return redirect(f"/admin/view/keys/{quote(name, safe='')}?done={done}")


def _errors(read: ReadKey, exc: GatewayError) -> Mapping[str, str]:
    """Return the field that an error is about, and what it says of it."""
    place = read.error_at(getattr(exc, "param", None))
    return {place: exc.message.partition(": ")[2] or exc.message} if place else {}


async def _list(
    request: _Request,
    gateway: Gateway,
    *,
    q: str = "",
    all: bool = False,
    fields: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    more: str = "",
    refused: GatewayError | None = None,
) -> Response[str]:
    """The list; without a store, the keys of the file."""
    config, trouble = gateway.runtime.config, ""
    try:
        found = await key_desk(gateway).read(partial(list_keys, config=config))
    except GatewayError as exc:
        found = listing([], config)
        trouble = say("only keys of the configuration file are shown: {why}", why=exc.message)
    page = KeyPage(
        keys=found.keys,
        who=principal_of(request.scope),
        teams=[team.name for team in config.teams],
        now=datetime.now(UTC),
        q=q,
        all=all,
        models=_models(gateway),
        fields=fields or {},
        errors=errors or {},
        more=more,
        refused=_refused(refused, errors),
        trouble=trouble,
    )
    status = _status(refused, errors)
    return await shown(gateway, request, "Keys", [key_list_section(page)], status)


def _status(refused: GatewayError | None, errors: Mapping[str, str] | None) -> int:
    return refused.status if refused is not None else 400 if errors else 200


def _refused(refused: GatewayError | None, errors: Mapping[str, str] | None) -> str:
    """Return the message above the form."""
    if refused is not None:
        return refused.message
    return "\n".join(f"{name}: {message}" for name, message in (errors or {}).items())


def _models(gateway: Gateway) -> list[str]:
    """Return what may be chosen: names and aliases of models."""
    models = gateway.runtime.config.models
    return sorted({name for one in models for name in (one.name, *one.aliases)})


async def _key(
    request: _Request,
    gateway: Gateway,
    name: str,
    *,
    secret: str = "",
    done: str = "",
    refused: GatewayError | None = None,
    fields: Mapping[str, str] | None = None,
    errors: Mapping[str, str] | None = None,
    more: str = "",
) -> Response[str]:
    """One key. Raises RouteNotFound, StoreUnavailable."""
    config = gateway.runtime.config
    of_file = next((key for key in config.auth.keys if key.name == name), None)
    found, view = None, None
    if of_file is not None:
        view = view_of_file_key(of_file, await _last_used(gateway, name))
    else:

        def read(keys: KeyAuthority) -> KeyDetails:
            return details(keys.find(name), keys.rows.readers(), config)

        found = await key_desk(gateway).read(read)
        view = found.key
    part = KeyPart(
        key=view,
        details=found,
        who=principal_of(request.scope),
        now=datetime.now(UTC),
        secret=secret,
        done=done,
        refused=_refused(refused, errors),
        fields=fields or {},
        errors=errors or {},
        more=more,
        teams=[team.name for team in config.teams],
        models=_models(gateway),
    )
    status = _status(refused, errors)
    return await shown(gateway, request, "Keys", [key_section(part)], status)


async def _last_used(gateway: Gateway, name: str) -> float | None:
    """Return when a key of the file was used last; `None` if that cannot be known now."""
    try:
        found = await key_desk(gateway).read(lambda keys: keys.rows.used_by_records([name]))
    except GatewayError:
        return None
    return found.get(name)


def _number(sent: Mapping[str, str], name: str, default: str) -> int:
    text = sent.get(name, default)
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidRequest(f"{name}: expected a whole number", param=name)
    return int(text)
