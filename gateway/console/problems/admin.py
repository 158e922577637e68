"""`GET /admin/problems` and `GET /admin/events`."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from strowger_gateway.gateway.console.problems.event_rows import EventQuery
from strowger_gateway.gateway.console.problems.happening import Happening
from strowger_gateway.gateway.console.problems.problem import GatewayProblem
from strowger_gateway.gateway.console.problems.process_side import ProblemsSide
from strowger_gateway.gateway.console.problems.words import KINDS
from strowger_gateway.gateway.parts.console import AdminCall, AdminRoute, Nothing
from strowger_gateway.schemas.errors import InvalidRequest

LONGEST: Final = 512
MOST: Final = 500


EVENT_KINDS: Final = (
    "failing",
    "circuit_opened",
    "refused",
    "circuit_closed",
    "recovered",
    "removed",
    "cooldown",
    "no_backend",
    "backend_again",
    "check_failed",
    "check_passed",
    "draining",
    "disabled",
    "enabled",
    "over_budget",
    "within_budget",
    "started",
    "stopped",
    "reloaded",
    "reload_rejected",
    "worker_exited",
    *sorted(KINDS),
    "ended",
)
"""Of backends, of gateways, and of problems that began or ended."""


class ProblemList(Struct, frozen=True, kw_only=True):
    """The heaviest first. worst: its severity, or `none`."""

    worst: Literal["none", "notice", "warning", "critical"]
    problems: tuple[GatewayProblem, ...]


class EventsWanted(Struct, frozen=True, kw_only=True):
    """Which events."""

    limit: Annotated[int, Meta(ge=1, le=MOST, description="number of events, newest first")] = 100
    model: Annotated[str, Meta(max_length=LONGEST, description="as configured")] = ""
    backend: Annotated[
        str,
        Meta(
            max_length=LONGEST,
            description="PROVIDER, PROVIDER/MODEL, or that of a replica with ` @ HOST:PORT`",
        ),
    ] = ""
    kind: Annotated[
        str, Meta(max_length=LONGEST, description="`circuit_opened`, `reloaded`, …")
    ] = ""
    gateway: Annotated[
        str, Meta(max_length=LONGEST, description="HOST (PID) of the replica that has seen it")
    ] = ""
    since: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="Unix seconds; events from then on")
    ] = None
    before: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Unix seconds; events before, as of an earlier page"),
    ] = None


class EventList(Struct, frozen=True, kw_only=True):
    """The newest first.

    complete: they are of all gateways that share the store, over restarts; else the store could
    not be read, and they are the last ones of this gateway.
    """

    events: tuple[Happening, ...]
    complete: bool


async def problem_list(call: AdminCall[Nothing]) -> ProblemList:
    found = tuple(await call.side(ProblemsSide).current())
    return ProblemList(worst=found[0].severity if found else "none", problems=found)


async def event_list(call: AdminCall[EventsWanted]) -> EventList:
    """Raises InvalidRequest."""
    found, complete = await call.side(ProblemsSide).events(query_of(call.given))
    return EventList(events=tuple(found), complete=complete)


def query_of(given: EventsWanted) -> EventQuery:
    """Return what is read for a request. Raises InvalidRequest for an unknown kind."""
    if given.kind and given.kind not in EVENT_KINDS:
        raise InvalidRequest(
            f"kind: {given.kind!r} is not a kind of event; known: {', '.join(EVENT_KINDS)}",
            param="kind",
        )
    return EventQuery(
        limit=given.limit,
        kind=given.kind,
        model=given.model,
        backend=given.backend,
        gateway=given.gateway,
        since=given.since,
        before=given.before,
    )


ROUTES: Final = (
    AdminRoute(
        method="GET",
        path="/problems",
        role="viewer",
        summary="What is wrong now, in this gateway and those that share its store",
        takes=Nothing,
        returns=ProblemList,
        answer=problem_list,
    ),
    AdminRoute(
        method="GET",
        path="/events",
        role="viewer",
        summary="What has happened to backends and gateways, over restarts",
        takes=EventsWanted,
        returns=EventList,
        answer=event_list,
    ),
)
