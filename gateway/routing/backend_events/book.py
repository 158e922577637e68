"""The events of all processes of one gateway: a bounded list, log lines and a counter.

The leader has it, or the only process. Several processes report the same transition, because they
share the state of backends: the first report counts, and those that change nothing are dropped. So
a transition is one entry, one line and one count, whichever process has seen it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.routing.backend_events.event import BackendEvent, ListedEvent
from strowger_gateway.gateway.routing.backend_events.limiter import WINDOW_S, Limiter
from strowger_gateway.gateway.routing.backend_events.log_line import level_of, line_of
from strowger_gateway.gateway.routing.resilience.breaker_per_model import MOST
from strowger_gateway.gateway.routing.resilience.breaker_state import Phase
from strowger_gateway.gateway.routing.resilience.replica import REPLICA_MARK

KEPT: Final = 500
"""Events that are listed."""

_TO: Final = {
    "failing": "failing",
    "circuit_opened": "open",
    "circuit_closed": "closed",
    "recovered": "up",
    "refused": "refused",
    "cooldown": "cooldown",
}
"""The label `to` of the counter."""

_log = logging.getLogger("strowger.backends")
_Place = tuple[str, str, str]


class EventBook(Collector):
    """`add` what processes report. Not thread-safe.

    on_kept: is called with each event that is listed.
    """

    def __init__(self) -> None:
        self.on_kept: Callable[[ListedEvent], None] = _nothing
        self._kept: deque[ListedEvent] = deque(maxlen=KEPT)
        self._down: dict[_Place, Phase] = {}
        self._cooling: dict[_Place, float] = {}
        self._began: dict[_Place, float] = {}
        self._limiter = Limiter()
        self._left_out: dict[tuple[str, str], tuple[int, BackendEvent]] = {}
        self._counts: dict[tuple[str, str, str], int] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, event: BackendEvent) -> None:
        """Keep, count and log an event, unless it is known."""
        if not self._is_news(event):
            return
        event = self._timed(event)
        if event.kind in _TO:
            # Replicas come and go: their addresses would never leave the labels.
            backend = event.backend.partition(REPLICA_MARK)[0]
            labels = event.model, backend, _TO[event.kind]
            self._counts[labels] = self._counts.get(labels, 0) + 1
        key = event.model, event.backend
        if self._limiter.admits(key, event.time):
            left_out, _ = self._left_out.pop(key, (0, event))
            self._keep(ListedEvent(event=event, left_out=left_out))
        else:
            left_out, _ = self._left_out.get(key, (-1, event))
            self._left_out[key] = left_out + 1, event
            self._show_later()

    def newest(
        self, limit: int = KEPT, wanted: Callable[[BackendEvent], bool] = lambda _: True
    ) -> list[ListedEvent]:
        """Return the last events that are wanted, the newest first."""
        found = (one for one in reversed(self._kept) if wanted(one.event))
        return [one for _, one in zip(range(limit), found, strict=False)]

    def show_left_out(self) -> None:
        """Keep the last event of each backend that had too many: it says how that ended."""
        self._timer = None
        held, self._left_out = self._left_out, {}
        for left_out, event in held.values():
            self._keep(ListedEvent(event=event, left_out=left_out))

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "strowger_circuit_transitions",
            "Transitions of backends: circuit open or closed, failing in a row, refused, up again, "
            "or a cooldown begun.",
            labels=("model", "backend", "to"),
        )
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family

    def _keep(self, listed: ListedEvent) -> None:
        self._kept.append(listed)
        self.on_kept(listed)
        level = level_of(listed.event)
        if level is not None:
            _log.log(level, "%s", line_of(listed))

    def _is_news(self, event: BackendEvent) -> bool:
        """Whether it changes what is known of its backend or model; note the change."""
        place = event.place
        match event.kind:
            case "cooldown":
                ends = event.time + (event.for_s or 0.0)
                news = event.time >= self._cooling.get(place, 0.0)
                self._cooling[place] = ends if news else max(ends, self._cooling[place])
                _bound(self._cooling)
                return news
            case "check_failed" | "check_passed":
                return (event.kind == "check_failed") != (place in self._began)
            case "draining" | "disabled" | "enabled" | "over_budget" | "within_budget":
                return True  # the leader reports each change once
            case _:
                before = self._down.get(place, "up")
                # Of a refusal or an open circuit, a process may know only the failures.
                weaker = event.phase == "failing" and event.kind == "failing"
                if event.phase == before or (weaker and before != "up"):
                    return False
                if event.phase == "up":
                    del self._down[place]
                else:
                    self._down[place] = event.phase
                    _bound(self._down)
                return True

    def _timed(self, event: BackendEvent) -> BackendEvent:
        """Note when an outage of a model or a check begins, and return how long it was at its end.

        A process that has started since then does not know.
        """
        match event.kind:
            case "no_backend" | "check_failed":
                self._began[event.place] = event.time
                _bound(self._began)
            case "backend_again" | "check_passed":
                lasted = event.time - self._began.pop(event.place, event.time)
                if lasted > 0:  # the time of day may have been set back
                    return replace(event, duration_s=lasted)
            case _:
                pass
        return event

    def _show_later(self) -> None:
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return  # a test, or a command
            self._timer = loop.call_later(WINDOW_S, self.show_left_out)


def _nothing(listed: ListedEvent) -> None:
    pass


def _bound(known: dict[_Place, Phase] | dict[_Place, float]) -> None:
    """Forget the oldest names of wildcards, which clients choose, and the oldest replicas."""
    if len(known) > MOST:
        names = [place for place in known if place[2] or REPLICA_MARK in place[1]]
        for place in names[: len(known) - MOST]:
            del known[place]
