"""The evidence against one backend over several gateways: Page's cumulative sum of all of them.

Each gateway counts its failures and successes. The sum grows by 1 with each failure of any gateway
and shrinks with each success of any, as in `circuit_breaker`. Counts arrive in batches, whose order
is unknown: failures are added first, which gives the least sum of all orders. So it never exceeds
the evidence of one gateway that would have had all the requests.

A second sum for each gateway that has failures leaves that one out: what one gateway reports, true
or not, is never enough.
"""

from collections.abc import Mapping

from msgspec import Struct

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.resilience.circuit_breaker import MIN_FAILED_SHARE

LAG_S = 0.5
"""How old a failure is at most, as a rule, when it is read from another gateway's notice."""

ELSEWHERE = 0.5
"""The part of the needed evidence that must be there without the failures of any one gateway."""

FEW = 0.25
"""The part of the needed evidence from which on all gateways report their successes."""


class Reported(Struct, frozen=True, kw_only=True, array_like=True):
    """Outcomes at one backend in one gateway since it began to report them.

    recent: how many ended within the breaker's window. suspects: its sum of all gateways is at
    least FEW of what is needed, or was within the window.
    """

    failed: int
    succeeded: int
    recent: int = 0
    suspects: bool = False


class _Failing(Struct, kw_only=True):
    """A gateway with failures since the sum was last 0.

    failed: how many. without: the sum of all the others, or less.
    """

    failed: int
    without: float


class EvidenceSum:
    """The sum for one backend, as one gateway reads it.

    value: in failures. since: when it was last 0, seconds of this gateway's clock; `None` while
    it is. failed_at: when a failure was last read.
    """

    __slots__ = ("_failing", "_read", "_recent", "failed_at", "rule", "since", "value")

    def __init__(self, rule: BreakerRule) -> None:
        self.rule = rule
        self.value = 0.0
        self.since: float | None = None
        self.failed_at = float("-inf")
        self._read: dict[bytes, Reported] = {}
        self._failing: dict[bytes, _Failing] = {}
        self._recent = 0

    @property
    def seen_by(self) -> int:
        """The number of gateways with failures since the sum was last 0."""
        return len(self._failing)

    @property
    def without_any(self) -> float:
        """The evidence that is left if the failures of any one gateway are left out."""
        return min((one.without for one in self._failing.values()), default=0.0)

    @property
    def needed(self) -> float:
        """The evidence that opens the circuit, as in `Breaker.fail`."""
        return max(self.rule.min_requests, MIN_FAILED_SHARE * self._recent)

    @property
    def suffices(self) -> bool:
        """Whether the circuit should open, if all gateways report."""
        needed = self.needed
        return self.value >= needed and self.without_any >= ELSEWHERE * needed

    @property
    def suspicious(self) -> bool:
        """Whether all gateways should report."""
        return self.seen_by > 1 and self.value >= FEW * self.needed

    def read(self, reports: Mapping[bytes, Reported], now: float) -> None:
        """Add what is new since the last call. reports: by gateway; those not in it are gone."""
        for gateway in self._read.keys() - reports.keys():
            self._leave_out(gateway)
        failed, succeeded = self._increments(reports)
        fails, wins = sum(failed.values()), sum(succeeded.values())
        if fails:
            self.failed_at = now
        elif now - self.failed_at > self.rule.window_s:
            self._clear()
        before = self.value
        self.value = max(0.0, before + fails - self._weight(wins))
        if not self.value:
            self._clear()
            return
        if self.since is None:
            self.since = now - LAG_S
        for gateway, count in failed.items():
            one = self._failing.setdefault(gateway, _Failing(failed=0, without=before))
            one.failed += count
        for gateway, one in self._failing.items():
            others = fails - failed.get(gateway, 0)
            taken = self._weight(wins - succeeded.get(gateway, 0))
            one.without = max(0.0, one.without + others - taken)

    def start_over(self, reports: Mapping[bytes, Reported]) -> None:
        """Forget the evidence; only what is reported from now on counts."""
        self._increments(reports)
        for gateway in self._read.keys() - reports.keys():
            del self._read[gateway]
        self._clear()

    def _increments(
        self, reports: Mapping[bytes, Reported]
    ) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """Return new failures and new successes by gateway."""
        failed: dict[bytes, int] = {}
        succeeded: dict[bytes, int] = {}
        for gateway, one in reports.items():
            last = self._read.get(gateway)
            if last is one:
                continue
            if last is None or one.failed < last.failed or one.succeeded < last.succeeded:
                last = _NOTHING  # it has begun again
            self._recent += max(0, one.recent)
            if gateway in self._read:
                self._recent -= max(0, self._read[gateway].recent)
            if one.failed > last.failed:
                failed[gateway] = one.failed - last.failed
            if one.succeeded > last.succeeded:
                succeeded[gateway] = one.succeeded - last.succeeded
            self._read[gateway] = one
        return failed, succeeded

    def _leave_out(self, gateway: bytes) -> None:
        """Remove what a gateway has contributed; the sums become no larger than without it."""
        self._recent -= max(0, self._read.pop(gateway).recent)
        gone = self._failing.pop(gateway, None)
        if gone is not None:
            self.value = min(self.value, gone.without)
            for one in self._failing.values():
                one.without = max(0.0, one.without - gone.failed)

    def _weight(self, successes: int) -> float:
        """Return the failures that so many successes take back."""
        if not successes:
            return 0.0
        rate = self.rule.failure_rate
        return successes * rate / (1.0 - rate) if rate < 1.0 else float("inf")

    def _clear(self) -> None:
        self.value, self.since = 0.0, None
        self._failing.clear()


_NOTHING = Reported(failed=0, succeeded=0)
