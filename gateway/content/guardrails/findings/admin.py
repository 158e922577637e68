"""`GET /admin/guardrails`, and the view of the page."""

from collections.abc import Awaitable, Callable

from markupsafe import Markup

from strowger_gateway.gateway.content.guardrails.findings.answer import (
    FindingsAsked,
    GuardrailFindings,
    span_of,
    summary,
)
from strowger_gateway.gateway.content.guardrails.findings.rows import FoundRequests
from strowger_gateway.gateway.content.guardrails.findings.view import say, sections
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, PageView
from strowger_gateway.gateway.platform.language import sentence

_Call = AdminCall[FindingsAsked]
Reads = Callable[[_Call, float, float], Awaitable[FoundRequests | None]]
"""Returns what the store has from one time to another, Unix seconds; `None` without a store.

Raises StoreUnavailable.
"""


def findings_route(read: Reads) -> AdminRoute[FindingsAsked]:
    async def findings(call: _Call) -> GuardrailFindings:
        """Raises InvalidRequest, StoreUnavailable."""
        return await _findings(call, read)

    return AdminRoute(
        method="GET",
        path="/guardrails",
        role="viewer",
        summary="What guardrails have found in recorded requests, without content",
        takes=FindingsAsked,
        returns=GuardrailFindings,
        answer=findings,
    )


def findings_view(read: Reads) -> PageView[FindingsAsked]:
    async def render(call: _Call) -> Markup:
        """Raises InvalidRequest, StoreUnavailable."""
        return sections(await _findings(call, read), call.given)

    return PageView(
        say=say,
        name="guardrails",
        title=sentence("Guardrails"),
        group="requests",
        role="viewer",
        takes=FindingsAsked,
        render=render,
    )


async def _findings(call: _Call, read: Reads) -> GuardrailFindings:
    span = span_of(call.given)
    return summary(call.config, call.given, span, await read(call, *span))
