"""What the frame of every view shows now: the state of the gateway, and what is down."""

import time
from collections.abc import Sequence

from litestar import Request
from litestar.datastructures import State
from markupsafe import Markup

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import principal_of
from strowger_gateway.gateway.console.admin.page.document import Frame, state_mark
from strowger_gateway.gateway.console.admin.page.formatting import span
from strowger_gateway.gateway.console.admin.part_calls import views_of
from strowger_gateway.gateway.console.problems.band import band, state_of
from strowger_gateway.gateway.console.problems.process_side import ProblemsSide
from strowger_gateway.gateway.platform.language import words_of

say = words_of(__file__)

_Request = Request[object, object, State]


async def frame_of(gateway: Gateway, request: _Request) -> Frame:
    """Return the frame of a view for who was let through."""
    state, band = await frame_sections(gateway)
    return Frame(
        who=principal_of(request.scope),
        here=_here(request),
        footer=footer_text(gateway),
        views=views_of(gateway),
        state=state,
        band=band,
    )


def bare_frame(gateway: Gateway, request: _Request) -> Frame:
    """As `frame_of`, of an error's page: asks nothing that could fail, so it shows no state."""
    return Frame(
        who=principal_of(request.scope),
        here=_here(request),
        footer=footer_text(gateway),
        views=views_of(gateway),
    )


async def frame_sections(gateway: Gateway) -> Sequence[Markup]:
    """Return the sections of the frame that change: the state, and what is wrong."""
    problems = await gateway.side(ProblemsSide).current()
    return state_mark(*state_of(problems)), band(problems)


def footer_text(gateway: Gateway) -> str:
    """Return the page's last line."""
    return say(
        "Uptime {time}. Configuration {digest}.",
        time=span(time.time() - gateway.processes.status.started_at),
        digest=gateway.runtime.config.digest,
    )


def _here(request: _Request) -> str:
    """The view's address; after a form was posted to it, the overview's, which can be read."""
    if request.method not in ("GET", "HEAD"):
        return "/admin"
    query = request.scope["query_string"].decode("latin-1")
    return f"{request.scope['path']}?{query}" if query else request.scope["path"]
