"""The document around a part of the page, and its errors as HTML instead of JSON."""

from collections.abc import Callable, Sequence
from math import ceil

import msgspec
from litestar import Request, Response
from litestar.datastructures import State
from litestar.exceptions import ValidationException
from markupsafe import Markup

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import was_identified
from strowger_gateway.gateway.console.admin.governance.markup import problem
from strowger_gateway.gateway.console.admin.page.answers import html, redirect
from strowger_gateway.gateway.console.admin.page.document import part_page
from strowger_gateway.gateway.console.admin.page.framing import bare_frame, frame_of
from strowger_gateway.gateway.console.admin.page.sign_in import sign_in_path, unchecked
from strowger_gateway.schemas.errors import GatewayError, InvalidRequest, Unauthenticated

_Request = Request[object, object, State]


async def shown(
    gateway: Gateway, request: _Request, part: str, sections: Sequence[Markup], status: int = 200
) -> Response[str]:
    """Return a view to who was let through. part: its title in the navigation, in English."""
    return html(part_page(await frame_of(gateway, request), part, sections), status)


def error_page(
    current: Callable[[], Gateway], part: str
) -> Callable[[_Request, GatewayError], Response[str]]:
    """Return a handler of errors that shows them in the page; without a session, sign in first."""

    def answer(request: _Request, exc: GatewayError) -> Response[str]:
        if isinstance(exc, Unauthenticated):
            reads = request.method in ("GET", "HEAD")
            return redirect(sign_in_path(request.scope) if reads else "/admin/sign-in")
        if was_identified(request.scope):
            frame = bare_frame(current(), request)
            found = html(part_page(frame, part, [problem(exc.message)]), exc.status)
        else:
            found = unchecked(current(), exc)
        if exc.retry_after is not None:
            found.headers["retry-after"] = str(ceil(exc.retry_after))
        return found

    return answer


class _Fault(msgspec.Struct):
    """Litestar's report about a parameter that it cannot read."""

    message: str
    key: str = ""


def parameter_page(
    current: Callable[[], Gateway], part: str
) -> Callable[[_Request, ValidationException], Response[str]]:
    """Return a handler that shows in the page which parameter of its address is wrong."""
    page = error_page(current, part)

    def answer(request: _Request, exc: ValidationException) -> Response[str]:
        faults = msgspec.convert(exc.extra or [], list[_Fault])
        told = "; ".join(f"{one.key}: {one.message}" for one in faults)
        return page(request, InvalidRequest(told or exc.detail))

    return answer
