"""The document around a part of the page, and its errors as HTML instead of JSON."""

from collections.abc import Callable, Sequence
from math import ceil

from litestar import Request, Response
from litestar.datastructures import State
from markupsafe import Markup

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import principal_of, was_identified
from strowger_gateway.gateway.console.admin.governance.markup import problem
from strowger_gateway.gateway.console.admin.page.answers import html, redirect
from strowger_gateway.gateway.console.admin.page.document import part_page
from strowger_gateway.gateway.console.admin.page.overview import footer_text
from strowger_gateway.gateway.console.admin.page.sign_in import sign_in_path, unchecked
from strowger_gateway.gateway.console.admin.part_calls import views_of
from strowger_gateway.schemas.errors import GatewayError, Unauthenticated

_Request = Request[object, object, State]


def shown(
    gateway: Gateway, request: _Request, part: str, sections: Sequence[Markup], status: int = 200
) -> Response[str]:
    """Return a part of the page to who was let through. part: its name in PARTS, or its title."""
    who, footer = principal_of(request.scope), footer_text(gateway)
    views = views_of(gateway)
    return html(part_page(part, sections, who=who, footer=footer, views=views), status)


def error_page(
    current: Callable[[], Gateway], part: str
) -> Callable[[_Request, GatewayError], Response[str]]:
    """Return a handler of errors that shows them in the page; without a session, sign in first."""

    def answer(request: _Request, exc: GatewayError) -> Response[str]:
        if isinstance(exc, Unauthenticated):
            reads = request.method in ("GET", "HEAD")
            return redirect(sign_in_path(request.scope) if reads else "/admin/sign-in")
        if was_identified(request.scope):
            found = shown(current(), request, part, [problem(exc.message)], exc.status)
        else:
            found = unchecked(current(), exc)
        if exc.retry_after is not None:
            found.headers["retry-after"] = str(ceil(exc.retry_after))
        return found

    return answer
