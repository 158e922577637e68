"""Replicas that leave: unlisted first, then ended, then removed, so that no request fails."""

from collections.abc import Iterator, Sequence
from typing import Literal

from strowger_gateway.gateway.backends.placement.cluster import Placed

GRACE_S = 30.0
"""Beyond `listen.drain_s` until an engine counts as ended if its actor does not report it."""

Step = Literal["end", "remove"]


class Departures:
    """names: of the replicas that are leaving."""

    def __init__(self, *, settle_s: float, drain_s: float) -> None:
        self._settle_s = settle_s
        self._drain_s = drain_s
        self._since: dict[str, float] = {}
        self._ended_at: dict[str, float] = {}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._since)

    def begin(self, name: str, at: float) -> None:
        self._since.setdefault(name, at)

    def recognise(self, placed: Sequence[Placed], at: float) -> None:
        """Continue with those that an earlier process has begun to end; forget those that left."""
        for one in placed:
            if one.report is not None and one.report.state in ("ending", "ended"):
                self._since.setdefault(one.name, at)
                self._ended_at.setdefault(one.name, at)
        there = {one.name for one in placed}
        for name in self.names - there:
            del self._since[name]
            self._ended_at.pop(name, None)

    def due(self, placed: Sequence[Placed], at: float) -> Iterator[tuple[str, Step]]:
        """Yield what is to be done now."""
        for one in placed:
            if one.name not in self._since:
                continue
            if not one.node or one.lost or (one.report is not None and one.report.state == "ended"):
                yield one.name, "remove"
            elif one.name in self._ended_at:
                if at - self._ended_at[one.name] > self._drain_s + GRACE_S:
                    yield one.name, "remove"
            elif at - self._since[one.name] >= self._settle_s:
                self._ended_at[one.name] = at
                yield one.name, "end"
