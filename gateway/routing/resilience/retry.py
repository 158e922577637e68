"""Whether and when a failed attempt is followed by another: the one rule, as pure functions.

What was already sent decides. Nothing was sent (`connect`): safe anywhere. Something may have
been sent (`timeout`, `server_error`, `broken_stream`): generation has no side effect that the
client could see, so another try only costs tokens, which `retry.on` lets the operator refuse.
Content was shown to the client: never again, by anyone. A backend says that the request itself
is wrong (`CallerError`): never, since every backend would say so. We cannot say the request in
one backend's words (`InvalidRequest`): nothing was sent, and another's may have room for it.
"""

from gateway.config.schema_failover import Retry as RetryRule
from gateway.routing.resilience.sliding_count import SlidingCount
from schemas.errors import GatewayError, InvalidRequest, UpstreamError


def may_fail_over(error: GatewayError, rule: RetryRule) -> bool:
    """Whether another backend may be asked after this failure, before content."""
    if isinstance(error, InvalidRequest):
        return True
    return isinstance(error, UpstreamError) and error.kind in rule.on


def may_retry(error: GatewayError, rule: RetryRule) -> bool:
    """Whether the same backend may be asked again: not when only another could do better."""
    return isinstance(error, UpstreamError) and not error.elsewhere and may_fail_over(error, rule)


def pause(error: GatewayError, rule: RetryRule, repeats: int, draw: float) -> float:
    """Seconds before the same backend is asked again: full jitter, never under its retry-after.

    repeats: how often this backend was tried again already. draw: uniform in [0, 1).
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    ceiling = min(rule.max_backoff_s, rule.backoff_s * 2.0**repeats)
    return max(draw * ceiling, error.retry_after or 0.0)


class RetryBudget:
    """Tries beside the first: at most max(floor, share of the first tries) in any 10 seconds.

    As it is: the second tries at one provider.

    firsts: the first tries; add to them.
    """

    _SECONDS = 10.0

    def __init__(self, *, floor: int = 10, share: float = 0.2) -> None:
        self.firsts = SlidingCount(self._SECONDS)
        self._repeats = SlidingCount(self._SECONDS)
        self._floor = floor
        self._share = share

    def take(self, now: float) -> bool:
        """Claim one more try; false when the budget is spent."""
        if self._repeats.at(now) >= max(self._floor, self._share * self.firsts.at(now)):
            return False
        self._repeats.add(now)
        return True
