"""The attempts at a backend that failed in a row: whether anything has succeeded since.

It never expires, unlike the evidence that opens the circuit: a backend that gets one request per
minute and fails them all never opens its circuit, and a backend that is down is still down after an
hour without requests. So this, and not the circuit alone, decides what metrics, the page and events
report (`Breaker.is_up`). Processes of one gateway exchange it, and the newer state is right.
"""

from typing import Protocol

from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot
from strowger_gateway.schemas.errors import GatewayError

FAILING = 3
"""The failed attempts in a row, without a success since, from which on a backend is failing."""

SHARE_S = 1.0
"""The least time between two reports of fewer failures to the other processes. A busy process
counts to FAILING by itself; those that get a request per minute count together."""

_NEVER = float("-inf")


class FailureRun:
    """The failures since the last success. Times are seconds of the clock.

    count: how many, 0 after a success; `None` while no attempt has ended with either, or since the
    backend was restarted. A process stops reporting it at FAILING, so that elsewhere it is a lower
    bound.
    at: of the state that other processes know. since: when the first of them failed.
    """

    __slots__ = ("_known", "_shared_at", "at", "count", "since")

    def __init__(self) -> None:
        self.count: int | None = None
        self.at = self.since = self._shared_at = _NEVER
        self._known = False

    @property
    def failing(self) -> bool:
        return self.count is not None and self.count >= FAILING

    def fail(self, now: float, *, conclusive: bool = False) -> bool:
        """Count a failure; return whether the other processes should know.

        conclusive: it proves by itself that the backend does not work.
        """
        before = self.count or 0
        if not before:
            self.since = now
        self.count = max(before + 1, FAILING) if conclusive else before + 1
        if before >= FAILING:
            return False
        self.at = now
        if self.count < FAILING and now - self._shared_at < SHARE_S:
            return False
        self._shared_at, self._known = now, True
        return True

    def succeed(self, now: float) -> bool:
        """An attempt has succeeded; return whether the other processes should know."""
        if self.count == 0:
            return False
        news = self._known or self.count is None
        self.count, self.at, self.since, self._known = 0, now, _NEVER, False
        return news

    def forget(self, now: float) -> None:
        """Nothing is known of the backend any more."""
        self.count, self.at, self.since, self._known = None, now, _NEVER, False

    def merge(self, health: BreakerSnapshot) -> bool:
        """Adopt what another process of this gateway knows, if it is newer: True."""
        if health.run_at <= self.at:
            return False
        self.count, self.at, self.since = health.failed_in_row, health.run_at, health.run_since
        self._known = bool(self.count)
        return True


class Whole(Protocol):
    """What counts the failures in a row of all names of a wildcard together: a breaker."""

    unsettled: bool

    def settle(self, now: float) -> None: ...
    def count_failure_of_name(
        self, now: float, failing_on: tuple[GatewayError, object] | None, *, conclusive: bool
    ) -> None: ...
