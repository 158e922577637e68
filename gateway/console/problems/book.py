"""What a gateway knows of its problems: since when each lasts, and which began or ended."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from strowger_gateway.gateway.console.problems.happening import Happening, begun, ended
from strowger_gateway.gateway.console.problems.metric_rules import COUNTERS, CounterTotals, grown
from strowger_gateway.gateway.console.problems.problem import GatewayProblem

KEPT: Final = 500
"""Events in memory."""

WINDOW_S: Final = 600.0
"""Counters are a problem for so long after they have grown."""

_OF_BACKENDS: Final = (
    "model_down",
    "model_on_fallback",
    "circuit_open",
    "backend_refused",
    "backend_failing",
    "names_down",
    "backend_held",
    "draining",
    "loading",
)
"""Kinds whose begin and end are events of backends, or of the gateway, already."""

_Key = tuple[str, str, str, str]


class ProblemBook:
    """`judge` what is wrong now, every few seconds. Not thread-safe.

    events: the last ones, the oldest first, with their numbers.
    """

    def __init__(self, gateway: str) -> None:
        """gateway: its name."""
        self.gateway = gateway
        self.events: deque[tuple[int, Happening]] = deque(maxlen=KEPT)
        self.unstored: deque[tuple[int, Happening]] = deque(maxlen=KEPT)
        self._known: dict[_Key, GatewayProblem] = {}
        self._missed: set[_Key] = set()
        self._totals: deque[CounterTotals] = deque()
        self._number = 0

    @property
    def current(self) -> list[GatewayProblem]:
        """The problems of the last judgement, with the times since when they last."""
        return list(self._known.values())

    def add(self, event: Happening) -> None:
        """Keep an event, until the store has it."""
        self._number = max(self._number + 1, int(event.time * 1e6))
        self.events.append((self._number, event))
        self.unstored.append((self._number, event))

    def judge(self, found: Iterable[GatewayProblem], totals: CounterTotals) -> None:
        """Take the problems of now; those that began or ended become events.

        One that is missing once, and there again, has not ended.
        """
        at = totals.time
        while self._totals and self._totals[0].time < at - WINDOW_S:
            self._totals.popleft()
        before = self._totals[0] if self._totals else None
        self._totals.append(totals)
        now = {one.key: one for one in (*found, *grown(before, totals))}
        for key, one in now.items():
            old = self._known.get(key)
            if old is None:
                one = one if one.since is not None else replace(one, since=at)
                if one.kind not in _OF_BACKENDS:
                    self.add(begun(one, at, self.gateway))
            elif one.since is None:
                one = replace(one, since=old.since)
            self._known[key] = one
        gone = self._known.keys() - now.keys()
        for key in gone & self._missed:
            one = self._known.pop(key)
            if one.kind not in _OF_BACKENDS:
                self.add(ended(one, at, self.gateway))
        self._missed = gone - (gone & self._missed)

    def newest(self) -> list[Happening]:
        return [event for _, event in reversed(self.events)]


def since_known(
    found: Iterable[GatewayProblem], known: Sequence[GatewayProblem]
) -> list[GatewayProblem]:
    """Return problems with the times of those that are known; a counter's are known only."""
    by_key = {one.key: one for one in known}
    fresh = list(found)
    seen = {one.key for one in fresh}
    counted = [one for one in known if one.kind in COUNTERS.values() and one.key not in seen]
    return [
        replace(one, since=by_key[one.key].since)
        if one.since is None and one.key in by_key
        else one
        for one in (*fresh, *counted)
    ]
