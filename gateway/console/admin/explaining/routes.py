"""`/admin/view/explain`: a form for a request, and where it would go."""

from collections.abc import Callable, Mapping
from typing import Final

from litestar import Request, Response, get, post
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import role_required
from strowger_gateway.gateway.console.admin.explain import explain_to
from strowger_gateway.gateway.console.admin.explaining.view import (
    ShownExplanation,
    explanation_section,
    form_section,
)
from strowger_gateway.gateway.console.admin.governance.forms import form_of, listed
from strowger_gateway.gateway.console.admin.governance.frame import error_page, shown
from strowger_gateway.gateway.console.admin.own_router import OwnRouter
from strowger_gateway.gateway.console.explain.explanation import Explanation
from strowger_gateway.gateway.platform.language import sentence
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest

_Request = Request[object, object, State]
TITLE: Final = sentence("Explain a request")
LARGEST: Final = 1_048_576
"""Bytes of the form; a request with images is explained by the command."""


def explain_view_routes(current: Callable[[], Gateway]) -> OwnRouter:
    return OwnRouter(
        path="/view",
        guards=[role_required(current)],
        route_handlers=_handlers(current),
        exception_handlers={GatewayError: error_page(current, TITLE)},
    )


def _handlers(current: Callable[[], Gateway]) -> list[HTTPRouteHandler]:
    @get("/explain", role="viewer", include_in_schema=False)
    async def empty(request: _Request) -> Response[str]:
        gateway = current()
        return await shown(gateway, request, TITLE, [form_section(_form(gateway, {}))])

    @post(
        "/explain",
        role="viewer",
        status_code=200,
        include_in_schema=False,
        request_max_body_size=LARGEST,
    )
    async def explained(request: _Request) -> Response[str]:
        gateway, sent = current(), await form_of(request)
        form, status = _form(gateway, sent), 200
        try:
            found = await _explained(gateway, sent)
        except GatewayError as exc:
            sections, status = [form_section(form, exc)], exc.status
        else:
            sections = [form_section(form), explanation_section(found)]
        return await shown(gateway, request, TITLE, sections, status)

    return [empty, explained]


async def _explained(gateway: Gateway, sent: Mapping[str, str]) -> Explanation:
    """Raises InvalidRequest for a header that is none, and as `explain_query`."""
    from strowger_gateway.gateway.console.explain.query import Query

    claims = sent.get("claims", "")
    query = Query(
        body=sent.get("body", "").encode(),
        path=sent.get("path", ""),
        model=sent.get("model", ""),
        key=sent.get("key", ""),
        claims=claims.encode() if claims else None,
        headers=tuple(map(_header, _lines(sent.get("headers", "")))),
        down=listed(sent.get("down", "")),
    )
    return await explain_to(gateway, query)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _header(line: str) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise InvalidRequest(f"headers: {line!r} is not NAME: VALUE", param="headers")
    return (
        name.strip().lower().encode("latin-1", "replace"),
        value.strip().encode("latin-1", "replace"),
    )


def _form(gateway: Gateway, sent: Mapping[str, str]) -> ShownExplanation:
    config = gateway.runtime.config
    return ShownExplanation(
        fields=sent,
        models=sorted({name for one in config.models for name in (one.name, *one.aliases)}),
        keys=[one.name for one in config.auth.keys],
        backends=sorted(
            {f"{ref.provider}/{ref.model}" for one in config.models for ref in one.backends}
            | {one.name for one in config.providers}
        ),
    )
