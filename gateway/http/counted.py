"""Count requests to stored things as others: under `max_in_flight`, a key's share, and limits."""

from collections.abc import Callable
from time import monotonic_ns
from typing import cast

from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.governance.access.auth import Caller
from strowger_gateway.gateway.governance.limits.headers import admitted_headers, refused_headers
from strowger_gateway.gateway.governance.limits.ledger import Headers, Hold, LimitRefusal
from strowger_gateway.gateway.governance.limits.process_side import LimitsSide
from strowger_gateway.gateway.governance.reservations.limit_room import refused
from strowger_gateway.gateway.http.litestar_log import COUNTED, HEADERS, Counted


def counted_in(scope: Scope) -> Counted:
    """Return what `counted` has found of a request."""
    return cast(Counted, scope["state"][COUNTED])


def counted(gateway: Gateway, surface: str, *, limited: bool) -> Callable[..., ASGIApp]:
    """Return the middleware of a route.

    surface: in the access log and the metrics.
    limited: the request counts as one under the limits of its key that hold for every model.
    """

    def around(app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            assert scope["type"] == "http"
            runtime, admission = gateway.runtime, gateway.admission
            admission.enter(runtime)
            try:
                admission.admit(runtime)
                caller = await runtime.access.keyring.caller(scope)
                call = scope, receive, send
                await _hold(app, gateway, runtime, (caller, surface), call, limited=limited)
            finally:
                admission.leave(runtime)

        return answer

    return around


async def _hold(
    app: ASGIApp,
    gateway: Gateway,
    runtime: Runtime,
    whose: tuple[Caller, str],
    call: tuple[HTTPScope, Receive, Send],
    *,
    limited: bool,
) -> None:
    """Answer a request with the slot that it needs. whose: the caller, and the surface.

    Raises Throttled, LimitExceeded.
    """
    (caller, surface), (scope, receive, send) = whose, call
    slot = gateway.shares.hold(
        caller.name,
        runtime.config.server,
        several=runtime.access.keyring.several,
        others_in_flight=gateway.admission.others_in_flight,
    )
    scope["state"][COUNTED] = Counted(surface=surface, caller=caller, slot=slot)
    hold = None
    try:
        if limited and gateway.side(LimitsSide).limits.any:
            hold = await _reserve(gateway, caller, scope["state"].setdefault(HEADERS, []))
        await app(scope, receive, send)
    finally:
        slot.close()
        if hold is not None:
            hold.settle_once(0)


async def _reserve(gateway: Gateway, caller: Caller, headers: Headers) -> Hold | None:
    """Count one request without tokens. Raises LimitExceeded. headers: of the answer."""
    limits = gateway.side(LimitsSide).limits
    accounts = limits.of((caller.name, "", "", caller.team, caller.user, "", caller.plan))
    if accounts is None:
        return None
    contended = limits.queue.waiting > 0 and limits.queue.is_contended(accounts)
    hold = None if contended else accounts.reserve(0, monotonic_ns())
    if hold is None:
        found = await limits.find_room(accounts, 0, caller.name, contended=contended)
        if isinstance(found, LimitRefusal):
            shown = refused_headers(accounts, monotonic_ns(), anthropic=False)
            raise refused(limits, found, 0, headers, shown)
        hold = found
    admitted_headers(accounts, headers, anthropic=False)
    return hold
