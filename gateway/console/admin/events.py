"""`GET /admin/events`: what happened to backends: circuits, failures, refusals, cooldowns."""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.routing.backend_events.book import KEPT
from strowger_gateway.gateway.routing.backend_events.event import BackendEvent, Kind, ListedEvent
from strowger_gateway.gateway.routing.backend_events.process_side import BackendEventsSide
from strowger_gateway.gateway.routing.resilience.breaker_state import Phase
from strowger_gateway.gateway.routing.resilience.replica import REPLICA_MARK

LONGEST: Final = 512
"""Characters of a filter."""

REQUESTED_CHARS: Final = 100
"""Characters of a name that a client chose."""


class EventView(Struct, frozen=True, kw_only=True):
    """One event. Times are Unix seconds, durations seconds; empty where it has none.

    kind:      failing, circuit_opened, refused: the backend is down from now on; circuit_closed,
               recovered, removed: it is not any more; cooldown: it asked for a pause; no_backend,
               backend_again: whether any backend of the model works; check_failed, check_passed:
               of health checks; draining, disabled, enabled: an operator has taken the backend out
               of service or put it back, `by` whom.
    backend:   PROVIDER/MODEL, with ` @ HOST:PORT` of a replica; "" for events of the model;
               PROVIDER if an operator has held all its backends.
    requested: for one name of a wildcard, the name that clients requested.
    phase:     of the backend from then on. fallback: who serves a model without backend.
    code, message: of the last failure, without texts of clients and without keys.
    failed_share: of the attempts in the breaker's window, as one process has seen them, 0 to 1.
    failed_in_row: attempts without a success, at least. since: when nothing succeeded any more.
    duration_s: how long it was down. for_s: how long it gets no requests.
    left_out:  events of the same backend before it that are not listed, because they were too many.
    """

    time: float
    kind: Kind
    model: str
    backend: str
    requested: str
    phase: Phase
    code: str
    message: str
    failed_share: float | None
    failed_in_row: int
    since: float | None
    duration_s: float | None
    for_s: float | None
    seen_by: int
    fallback: tuple[str, ...]
    by: str
    left_out: int


class EventList(Struct, frozen=True, kw_only=True):
    """Newest first."""

    events: list[EventView]


def events_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get(
        "/events",
        summary=f"What happened to backends: the last {KEPT} events of the whole gateway",
        role="viewer",
        security=[{SCHEME: []}],
    )
    async def events(
        limit: Annotated[
            int, QueryParameter(ge=1, le=KEPT, description="number of events, newest first")
        ] = 100,
        model: Annotated[str, QueryParameter(max_length=LONGEST, description="as configured")] = "",
        backend: Annotated[
            str,
            QueryParameter(
                max_length=LONGEST,
                description="PROVIDER, PROVIDER/MODEL, or that of a replica with ` @ HOST:PORT`",
            ),
        ] = "",
        kind: Annotated[
            Kind | None, QueryParameter(description="`circuit_opened`, `failing`, …")
        ] = None,
        since: Annotated[
            float | None, QueryParameter(gt=0, description="Unix seconds; events from then on")
        ] = None,
    ) -> EventList:
        def wanted(event: BackendEvent) -> bool:
            return (
                model in ("", event.model)
                and (not backend or backend in _names(event.backend))
                and kind in (None, event.kind)
                and (since is None or event.time >= since)
            )

        found = await current().side(BackendEventsSide).newest(limit, wanted)
        return EventList(events=list(map(viewed, found)))

    return events


def viewed(listed: ListedEvent) -> EventView:
    """Copy the fields under the same names."""
    event = listed.event
    values = {name: getattr(event, name) for name in event.__struct_fields__}
    values["requested"] = event.requested[:REQUESTED_CHARS]
    return msgspec.convert({**values, "left_out": listed.left_out}, EventView)


def _names(place: str) -> tuple[str, str, str]:
    """Return what a filter may call a backend."""
    name = place.partition(REPLICA_MARK)[0]
    return place, name, name.partition("/")[0]
