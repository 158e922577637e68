"""The schema of what happens to a model's requests when backends fail or are slow."""

from typing import Literal

from msgspec import Struct

from strowger_gateway.gateway.config.schema.units import Count, Name, Seconds, SecondsOrZero, Share
from strowger_gateway.schemas.errors import RetryKind
from strowger_gateway.schemas.requests import Continuing

EVERY_KIND: tuple[RetryKind, ...] = (
    "connect",
    "timeout",
    "rate_limit",
    "server_error",
    "broken_stream",
)


StreamRecovery = Literal["error", "continue", "restart"]
Continues = Continuing | Literal["no"]
OnSlow = Literal["deprioritise", "keep"]


class RetryRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """attempts: the maximum per request, over all of its backends and fallbacks.

    wait_for_s: the longest retry-after of a 429 that is waited for before a model of `fallback`.
    """

    attempts: Count = 3
    on: tuple[RetryKind, ...] = EVERY_KIND
    backoff_s: SecondsOrZero = 0.2
    max_backoff_s: SecondsOrZero = 5.0
    wait_for_s: SecondsOrZero = 2.0


class BreakerRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the circuit of a failing backend opens, and for how long.

    min_requests:   consecutive failures that open it. A success takes back
                    failure_rate / (1 - failure_rate) of them.
    window_s:       a failure is forgotten if no other follows within this time.
    max_cooldown_s: `None`: 10, or cooldown_s if that is more.
    max_retry_after_s: the longest retry-after of a backend that is honoured.
    slow_s: an attempt is slow if it shows nothing for so long; `None`: none is.
    slow_rate: the share of slow attempts above which the circuit opens.
    """

    failure_rate: Share = 0.5
    min_requests: Count = 12
    window_s: Seconds = 30.0
    cooldown_s: Seconds = 5.0
    max_cooldown_s: Seconds | None = None
    max_retry_after_s: SecondsOrZero = 300.0
    slow_s: Seconds | None = None
    slow_rate: Share = 0.5

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
