"""Whether and when another attempt follows a failed one: the one rule, as pure functions.

It depends on what has been sent. Nothing (`connect`): another attempt is safe anywhere. Possibly
something (`timeout`, `server_error`, `broken_stream`): generation has no side effect that the
client could see, so another attempt only costs tokens, and `retry.on` lets the operator disable it.
The client has received content: no further attempt. The backend rejects the request itself
(`CallerError`): no further attempt, because every backend would reject it. The gateway cannot
express the request in one backend's API (`InvalidRequest`): nothing was sent, and another backend
may support it. The backend refuses the operator's account, key or model (`UpstreamRefused`):
another one may not, and the attempt does not count, or a few dead accounts would use up all.
"""

from typing import Final

from strowger_gateway.gateway.config.schema.failover import RetryRule
from strowger_gateway.gateway.routing.resilience.recent_activity import SlidingCount
from strowger_gateway.schemas.errors import (
    GatewayError,
    InvalidRequest,
    UpstreamError,
    UpstreamRefused,
)


def may_fail_over(error: GatewayError, rule: RetryRule) -> bool:
    """Whether another backend may be asked after this failure, if the client has no content yet."""
    if isinstance(error, InvalidRequest):
        return True
    return isinstance(error, UpstreamError) and error.kind in rule.on


def may_retry(error: GatewayError, rule: RetryRule) -> bool:
    """Whether the same backend may be asked again; not if only another one could do better."""
    return isinstance(error, UpstreamError) and not error.elsewhere and may_fail_over(error, rule)


def costs_an_attempt(error: GatewayError, *, wildcard: bool) -> bool:
    """Whether the failed attempt counts towards `retry.attempts`.

    wildcard: the backend's model is one, so that the client has chosen the model's name.
    """
    if isinstance(error, UpstreamRefused):
        return error.about == "request" or (wildcard and error.about in ("model", "unclear"))
    return not isinstance(error, InvalidRequest)


def concerns_backend(error: UpstreamRefused, *, wildcard: bool) -> bool:
    """Whether no client can have caused the refusal, so that others would meet it, too."""
    return error.about in ("account", "address") or (error.about == "model" and not wildcard)


ALONE: Final = 4.0
"""How many times as long the pauses are if no other backend is left. With the default `backoff_s`
two of them last 1.2 to 2.4 s, as the pauses of vendors' clients do (0.5 and 1 s)."""


def pause(
    error: GatewayError, rule: RetryRule, repeats: int, draw: float, *, alone: bool = False
) -> float:
    """Seconds before a retry at the same backend, at least its retry-after.

    While another backend is left, with full jitter, because that one is next. If not (`alone`),
    longer and at least half of the maximum, so that a request survives a short outage.

    repeats: earlier retries at this backend. draw: uniform in [0, 1).
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    growth = 2.0**repeats
    if alone:
        growth, draw = growth * ALONE, 0.5 + 0.5 * draw
    ceiling = min(rule.max_backoff_s, rule.backoff_s * growth)
    return max(draw * ceiling, error.retry_after or 0.0)


class RetryBudget:
    """Limits additional attempts to max(floor, share of first attempts) in any 10 seconds.

    Processes that serve the same backends divide the floor, and each may always make one attempt.
    The share needs no division: each process takes it of its own first attempts.

    One budget bounds the retries at one provider, another the hedges of one model.

    floor:  additional attempts that are always allowed. share: of the first attempts.
    firsts: counts the first attempts; the callers add to it. processes: that divide the floor.
    """

    _SECONDS = 10.0

    def __init__(self, *, floor: int = 10, share: float = 0.2) -> None:
        self.firsts = SlidingCount(self._SECONDS)
        self._repeats = SlidingCount(self._SECONDS)
        self._floor = floor
        self._share = share
        self.processes = 1

    def take(self, now: float) -> bool:
        """Claim one additional attempt; false if the budget is spent."""
        floor, share = self._floor / self.processes, self._share * self.firsts.at(now)
        if self._repeats.at(now) >= max(floor, share):
            return False
        self._repeats.add(now)
        return True
