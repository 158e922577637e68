"""The schema of `models[].retry`, `breaker`, `fallback_by_error` and `stream_recovery`."""

from typing import Literal

from msgspec import Struct

from gateway.config.schema.units import Count, Name, Seconds, SecondsOrZero, Share
from schemas.errors import RetryKind

EVERY_KIND: tuple[RetryKind, ...] = (
    "connect",
    "timeout",
    "rate_limit",
    "server_error",
    "broken_stream",
)


StreamRecovery = Literal["error", "continue"]


class RetryRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """attempts: the maximum per request, over all of its backends and fallbacks."""

    attempts: Count = 3
    on: tuple[RetryKind, ...] = EVERY_KIND
    backoff_s: SecondsOrZero = 0.2
    max_backoff_s: SecondsOrZero = 5.0


class BreakerRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the circuit of a failing backend opens, and for how long.

    min_requests:   consecutive failures that open it. A success takes back
                    failure_rate / (1 - failure_rate) of them.
    window_s:       a failure is forgotten if no other follows within this time.
    max_cooldown_s: `None`: 10, or cooldown_s if that is more.
    max_retry_after_s: the longest retry-after of a backend that is honoured.
    """

    failure_rate: Share = 0.5
    min_requests: Count = 12
    window_s: Seconds = 30.0
    cooldown_s: Seconds = 5.0
    max_cooldown_s: Seconds | None = None
    max_retry_after_s: SecondsOrZero = 300.0

    @property
    def longest_s(self) -> float:
        """The longest cooldown, seconds."""
        if self.max_cooldown_s is None:
            return max(self.cooldown_s, 10.0)
        return self.max_cooldown_s


class ErrorFallbackConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retry requests that failed with one of these codes on these models, in order."""

    codes: tuple[Name, ...]
    models: tuple[Name, ...]
