"""`/admin/holds` and `/admin/backends/drain`, `disable` and `enable`: who took what out of service.

A hold is true of all gateways that share the store. What is out of service concerns all teams, so
only an admin changes it.
"""

import time
from typing import Annotated, Final

from msgspec import Meta, Struct

from strowger_gateway.gateway.audit.event import LONGEST_REASON, clean
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, Nothing
from strowger_gateway.gateway.routing.backend_holds.names import (
    checked_name,
    covers,
    is_configured,
    without_backend,
)
from strowger_gateway.gateway.routing.backend_holds.process_side import HoldsSide
from strowger_gateway.gateway.routing.backend_holds.until import ends_at
from strowger_gateway.gateway.routing.resilience.backend_hold import (
    BackendHold,
    HoldState,
    OperatorState,
    instant,
)
from strowger_gateway.schemas.errors import InvalidRequest

LONGEST_NAME: Final = 512

Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_NAME,
        description="PROVIDER for all its backends, PROVIDER/MODEL, or one replica of it with "
        "` @ HOST:PORT`",
    ),
]
Reason = Annotated[
    str, Meta(max_length=LONGEST_REASON, description="why; shown wherever the state is")
]


class HoldAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    reason: Reason = ""
    until: Annotated[
        str,
        Meta(
            max_length=40,
            description="when it ends by itself: `30m`, `2h` or `3d` from now, ISO 8601, or Unix "
            "seconds; without it, until it is enabled",
        ),
    ] = ""


class EnableAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    reason: Reason = ""


class HoldView(Struct, frozen=True, kw_only=True):
    """A hold. configured: this gateway's configuration has what it is of. Times: Unix seconds."""

    name: str
    state: HoldState
    reason: str
    by: str
    since: float
    until: float | None
    configured: bool


class HoldsView(Struct, frozen=True, kw_only=True):
    """holds: of all gateways that share the store. effects: what they leave without a backend."""

    holds: tuple[HoldView, ...]
    effects: tuple[str, ...]


async def held(call: AdminCall[Nothing]) -> HoldsView:
    """Raises StoreUnavailable."""
    return _view(call, await call.side(HoldsSide).current())


async def drain(call: AdminCall[HoldAsked]) -> HoldsView:
    """Raises InvalidRequest, and StoreUnavailable."""
    return await _hold(call, "draining")


async def disable(call: AdminCall[HoldAsked]) -> HoldsView:
    """Raises InvalidRequest, and StoreUnavailable."""
    return await _hold(call, "disabled")


async def enable(call: AdminCall[EnableAsked]) -> HoldsView:
    """Raises InvalidRequest for what is not held, and StoreUnavailable."""
    side, name = call.side(HoldsSide), call.given.name.strip()
    call.facts.update(_named(name, call.given.reason))
    if await side.end(name) is None:
        raise InvalidRequest(f"name: {not_held(name, side.holds)}", param="name")
    return _view(call, side.holds)


def not_held(name: str, holds: tuple[BackendHold, ...]) -> str:
    """Return why nothing of this name can be enabled, as the end of a sentence."""
    wider = next((one for one in holds if covers(one, name)), None)
    if wider is not None:
        return f"{name!r} is {wider.state} because {wider.name!r} is; enable {wider.name!r}"
    listed = ", ".join(repr(one.name) for one in holds)
    return f"{name!r} is neither drained nor disabled" + (f"; {listed} is" if listed else "")


async def _hold(call: AdminCall[HoldAsked], state: OperatorState) -> HoldsView:
    at, given = time.time(), call.given
    name = checked_name(given.name, call.config)
    until = ends_at(given.until, at)
    call.facts.update(_named(name, given.reason))
    if until is not None:
        call.facts["until"] = instant(until)
    hold = BackendHold(
        name=name,
        state=state,
        reason=clean(" ".join(given.reason.split()), LONGEST_REASON),
        by=call.by.label or call.who,
        since=at,
        until=until,
    )
    side = call.side(HoldsSide)
    await side.put(hold)
    return _view(call, side.holds)


def _named(name: str, reason: str) -> dict[str, str]:
    return {"target": name, "reason": reason} if reason else {"target": name}


def _view(
    call: "AdminCall[Nothing] | AdminCall[HoldAsked] | AdminCall[EnableAsked]",
    holds: tuple[BackendHold, ...],
) -> HoldsView:
    return HoldsView(
        holds=tuple(viewed(one, configured=is_configured(one.name, call.config)) for one in holds),
        effects=tuple(without_backend(call.config, holds)),
    )


def viewed(hold: BackendHold, *, configured: bool) -> HoldView:
    return HoldView(
        name=hold.name,
        state=hold.state,
        reason=hold.reason,
        by=hold.by,
        since=hold.since,
        until=hold.until,
        configured=configured,
    )


DRAIN: Final = AdminRoute(
    method="POST",
    path="/backends/drain",
    role="admin",
    summary="Send a backend no new requests; those in flight end. In all gateways of the store",
    takes=HoldAsked,
    returns=HoldsView,
    answer=drain,
    action="backend.drain",
)
DISABLE: Final = AdminRoute(
    method="POST",
    path="/backends/disable",
    role="admin",
    summary="Send a backend no new requests and no health checks. In all gateways of the store",
    takes=HoldAsked,
    returns=HoldsView,
    answer=disable,
    action="backend.disable",
)
ENABLE: Final = AdminRoute(
    method="POST",
    path="/backends/enable",
    role="admin",
    summary="Put a drained or disabled backend back into service",
    takes=EnableAsked,
    returns=HoldsView,
    answer=enable,
    action="backend.enable",
)
HELD: Final = AdminRoute(
    method="GET",
    path="/holds",
    role="viewer",
    summary="Backends that operators drain or disable, by whom, why and until when",
    takes=Nothing,
    returns=HoldsView,
    answer=held,
)
ROUTES: Final = (HELD, DRAIN, DISABLE, ENABLE)
