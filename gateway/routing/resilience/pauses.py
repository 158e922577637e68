"""The pauses of a backend after 429s: those that it asks for, and those that we choose.

A 429 or 503 with retry-after starts a cooldown of that length, during which the backend gets no
requests. A 429 without retry-after deprioritises it for a time that we choose: it may be asked, but
others are asked first. Times are seconds of the clock.
"""

from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot

DEPRIORITISE_S, MAX_DEPRIORITISE_S = 1.0, 60.0
"""The time after a 429 without retry-after. Each further 429 doubles it; a success resets it."""

_DOUBLINGS = 6
"""How many doublings take DEPRIORITISE_S beyond MAX_DEPRIORITISE_S."""

_NEVER = float("-inf")


class Pauses:
    """The ends of the current pauses.

    retry_after_until: of the cooldown. rate_limited_until: its part that a 429 set, and not a 503.
    deprioritised_until: other backends are asked first. deprioritised_count: how often that has
    happened since the last success.
    """

    __slots__ = (
        "deprioritised_count",
        "deprioritised_until",
        "rate_limited_until",
        "retry_after_until",
    )

    def __init__(self) -> None:
        self.clear()

    @property
    def until(self) -> float:
        """The end of the last of them."""
        return max(self.retry_after_until, self.deprioritised_until)

    def clear(self) -> None:
        """End all pauses."""
        self.retry_after_until = self.rate_limited_until = self.deprioritised_until = _NEVER
        self.deprioritised_count = 0

    def cool_down(self, now: float, seconds: float, *, limited: bool) -> bool:
        """Start a cooldown, unless a longer one runs: False. limited: a 429 asks for it."""
        if limited:
            self.rate_limited_until = max(self.rate_limited_until, now + seconds)
        if not now + seconds > self.retry_after_until:
            return False
        self.retry_after_until = now + seconds
        return True

    def deprioritise(self, now: float, draw: float) -> bool:
        """Start such a time, unless one runs: False. draw: jitter, uniform in [0, 1)."""
        if now < self.deprioritised_until:
            return False
        seconds = min(DEPRIORITISE_S * 2.0**self.deprioritised_count, MAX_DEPRIORITISE_S)
        self.deprioritised_count = min(self.deprioritised_count + 1, _DOUBLINGS)
        self.deprioritised_until = now + seconds * (0.5 + draw / 2)
        return True

    def merge(self, health: BreakerSnapshot) -> None:
        """Adopt the later ends that another process knows."""
        self.retry_after_until = max(self.retry_after_until, health.retry_after_until)
        self.deprioritised_until = max(self.deprioritised_until, health.deprioritised_until)
        self.rate_limited_until = max(self.rate_limited_until, health.rate_limited_until)
