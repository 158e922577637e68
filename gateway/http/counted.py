"""Count requests to stored things as others: under `max_in_flight`, a key's share, and limits."""

from collections.abc import Callable
from time import monotonic_ns
from typing import Final, cast

from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send
from msgspec import Struct

from gateway.access.auth import Caller
from gateway.access.key_shares import Slot
from gateway.http.limited import refused
from gateway.http.litestar_log import HEADERS
from gateway.limits.headers import admitted_headers, refused_headers
from gateway.limits.ledger import Hold, LimitRefusal
from gateway.limits.shown import Headers
from gateway.runtime import Runtime
from gateway.state import Gateway

COUNTED: Final = "strowger.counted"
"""Key in the scope's state: a `Counted`."""


class Counted(Struct, frozen=True, kw_only=True, eq=False):
    """A request that is admitted. slot: of its key, to claim memory for the answer."""

    caller: Caller
    slot: Slot


def counted_in(scope: Scope) -> Counted:
    """Return what `counted` has found of a request."""
    return cast(Counted, scope["state"][COUNTED])


def counted(gateway: Gateway, *, limited: bool) -> Callable[..., ASGIApp]:
    """Return the middleware of a route.

    limited: the request counts as one under the limits of its key that hold for every model.
    """

    def around(app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            assert scope["type"] == "http"
            runtime, admission = gateway.runtime, gateway.admission
            admission.enter(runtime)
            try:
                admission.admit(runtime)
                caller = await runtime.keyring.caller(scope)
                await _hold(app, gateway, runtime, caller, (scope, receive, send), limited=limited)
            finally:
                admission.leave(runtime)

        return answer

    return around


async def _hold(
    app: ASGIApp,
    gateway: Gateway,
    runtime: Runtime,
    caller: Caller,
    call: tuple[HTTPScope, Receive, Send],
    *,
    limited: bool,
) -> None:
    """Answer a request with the slot that it needs. Raises Throttled, LimitExceeded."""
    scope, receive, send = call
    slot = gateway.shares.hold(
        caller.name,
        runtime.config.server,
        several=runtime.keyring.several,
        others_in_flight=gateway.admission.others_in_flight,
    )
    hold = None
    try:
        if limited and gateway.limits.any:
            hold = await _reserve(gateway, caller, scope["state"].setdefault(HEADERS, []))
        scope["state"][COUNTED] = Counted(caller=caller, slot=slot)
        await app(scope, receive, send)
    finally:
        slot.close()
        if hold is not None:
            hold.settle_once(0)


async def _reserve(gateway: Gateway, caller: Caller, headers: Headers) -> Hold | None:
    """Count one request without tokens. Raises LimitExceeded. headers: of the answer."""
    limits = gateway.limits
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
