"""`/admin/view/keys`: the keys in a browser, with forms that do what `/admin/keys` does."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, Literal, TypedDict
from urllib.parse import quote

import msgspec
from litestar import Request, Response, get, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, QueryParameter

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.config.schema.budgets import OwnBudget
from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.gateway.config.schema.units import MOST_URGENT
from strowger_gateway.gateway.console.admin.access import made_by, principal_of
from strowger_gateway.gateway.console.admin.governance.forms import FORM_BYTES, form_of, listed
from strowger_gateway.gateway.console.admin.governance.frame import shown
from strowger_gateway.gateway.console.admin.governance.key_details import KeyPart, key_section
from strowger_gateway.gateway.console.admin.governance.key_list import KeyPage, key_list_section
from strowger_gateway.gateway.console.admin.keys import key_desk, team_permit
from strowger_gateway.gateway.console.admin.page.answers import redirect
from strowger_gateway.gateway.governance.issued_keys.authority import KeyAuthority, KeyFields
from strowger_gateway.gateway.governance.issued_keys.rule_text import budget_from, limit_from
from strowger_gateway.gateway.governance.issued_keys.view import (
    KeyDetails,
    details,
    listing,
    view_of_file_key,
)
from strowger_gateway.gateway.platform.language import sentence, words_of
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest, RouteNotFound

say = words_of(__file__)

_Request = Request[object, object, State]
_Act = Literal["rotate", "rules", "enable", "disable", "revoke"]
_Done = Literal["", "ruled", "enabled", "disabled", "revoked"]
_DONE: Final[Mapping[_Done, str]] = {
    "": "",
    "ruled": sentence("The limits and budgets of the key are changed."),
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

    @get("/keys/{name:str}", role="viewer", include_in_schema=False)
    async def key(
        request: _Request, name: FromPath[str], done: FromQuery[_Done] = ""
    ) -> Response[str]:
        return await _key(request, current(), name, done=say(_DONE[done]))

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
        by, permit = made_by(gateway, request.scope), team_permit(request)
        try:
            wanted = _fields(fields)
            made = await key_desk(gateway).change(
                lambda keys: keys.create(fields.get("name", ""), wanted, by, permit)
            )
        except GatewayError as exc:
            return await _list(request, gateway, fields=fields, refused=exc)
        return await _key(request, gateway, made.key.name, secret=made.secret)

    @post(
        "/keys/{name:str}/{act:str}",
        role="operator",
        status_code=200,
        include_in_schema=False,
        request_max_body_size=FORM_BYTES,
    )
    async def change(request: _Request, name: FromPath[str], act: FromPath[str]) -> Response[str]:
        gateway, fields = current(), await form_of(request)
        try:
            wanted = msgspec.convert(act, _Act)
        except msgspec.ValidationError:
            raise RouteNotFound(f"no route {request.scope['path']}") from None
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
    if act == "rules":
        wanted = KeyFields(**_rules(fields))
        await desk.change(lambda keys: keys.change(name, wanted, by, permit))
        return redirect(f"/admin/view/keys/{quote(name, safe='')}?done=ruled")
    if act == "revoke":
        await desk.change(lambda keys: keys.revoke(name, by, permit))
        return redirect(f"/admin/view/keys/{quote(name, safe='')}?done=revoked")
    turned = KeyFields(disabled=act == "disable")
    await desk.change(lambda keys: keys.change(name, turned, by, permit))
    return redirect(f"/admin/view/keys/{quote(name, safe='')}?done={act}d")


async def _list(
    request: _Request,
    gateway: Gateway,
    *,
    q: str = "",
    all: bool = False,
    fields: Mapping[str, str] | None = None,
    refused: GatewayError | None = None,
) -> Response[str]:
    """The list; without a store, the keys of the file."""
    config, trouble = gateway.runtime.config, ""
    try:
        found = await key_desk(gateway).read(lambda keys: keys.rows.all())
    except GatewayError as exc:
        found, trouble = (
            [],
            say("only keys of the configuration file are shown: {why}", why=exc.message),
        )
    page = KeyPage(
        keys=listing(found, config).keys,
        who=principal_of(request.scope),
        teams=[team.name for team in config.teams],
        now=datetime.now(UTC),
        q=q,
        all=all,
        fields=fields or {},
        refused="" if refused is None else refused.message,
        trouble=trouble,
    )
    status = 200 if refused is None else refused.status
    return await shown(gateway, request, "Keys", [key_list_section(page)], status)


async def _key(
    request: _Request,
    gateway: Gateway,
    name: str,
    *,
    secret: str = "",
    done: str = "",
    refused: GatewayError | None = None,
    fields: Mapping[str, str] | None = None,
) -> Response[str]:
    """One key. Raises RouteNotFound, StoreUnavailable."""
    config = gateway.runtime.config
    of_file = next((key for key in config.auth.keys if key.name == name), None)
    found, view = None, view_of_file_key(of_file) if of_file is not None else None
    if view is None:

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
        refused="" if refused is None else refused.message,
        fields=fields or {},
    )
    status = 200 if refused is None else refused.status
    return await shown(gateway, request, "Keys", [key_section(part)], status)


def _fields(sent: Mapping[str, str]) -> KeyFields:
    """The fields of a new key. Raises InvalidRequest."""
    given: dict[str, object] = {
        "team": sent.get("team", ""),
        "user": sent.get("user", ""),
        "tags": listed(sent.get("tags", "")),
        "allowed_networks": listed(sent.get("allowed_networks", "")),
        "max_priority": _number(sent, "max_priority", str(MOST_URGENT)),
    }
    given |= _rules(sent)
    if models := listed(sent.get("models", "")):
        given["models"] = models
    if expires := sent.get("expires", ""):
        given["expires"] = f"{expires}T00:00:00Z"
    try:
        return msgspec.convert(given, KeyFields)
    except msgspec.ValidationError as exc:
        message = str(exc).replace(" - at `$.", " in `")
        raise InvalidRequest(f"the form has a wrong value: {message}") from exc


class _Rules(TypedDict):
    limits: tuple[OwnLimit, ...]
    budgets: tuple[OwnBudget, ...]


def _rules(sent: Mapping[str, str]) -> _Rules:
    """The key's own limits and budgets, one a line. Raises InvalidRequest."""
    limits, budgets = ((sent.get(name, "")).splitlines() for name in ("limits", "budgets"))
    return {
        "limits": tuple(limit_from(line) for line in limits if line.strip()),
        "budgets": tuple(budget_from(line) for line in budgets if line.strip()),
    }


def _number(sent: Mapping[str, str], name: str, default: str) -> int:
    text = sent.get(name, default)
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidRequest(f"{name}: expected a whole number", param=name)
    return int(text)
