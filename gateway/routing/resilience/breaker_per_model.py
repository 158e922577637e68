"""The breakers of a wildcard backend: one for each model that clients have asked for."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from gateway.config.schema_failover import Breaker as BreakerRule
from gateway.routing.resilience.circuit_breaker import Breaker

KEPT = 512
"""Names per backend. Clients choose them; the one that was asked for longest ago goes first."""


NAMED = "\0"
"""In a breaker's key, between that of a wildcard backend and the model that it is about."""

MOST = 4096
"""Names, over all backends, of which is remembered what other processes said."""

_Known = TypeVar("_Known")


def bound(known: dict[str, _Known]) -> None:
    """known: by breakers' keys. What clients can make long forgets the names it heard of first."""
    if len(known) > MOST:
        names = [key for key in known if NAMED in key]
        for key in names[: len(known) - MOST]:
            del known[key]


def _no_exchange(name: str, breaker: Breaker) -> None:
    """No other process shares it."""


class Breakers:
    """A 429, or a failure, is about one of the provider's models, and counts for that alone.

    Otherwise a client that asks for names which do not exist, or one model that is out of quota,
    would keep all others from being served.

    made: called with each new one.
    """

    __slots__ = ("_known", "made", "rule")

    def __init__(self, rule: BreakerRule) -> None:
        self.rule = rule
        self._known: dict[str, Breaker] = {}
        self.made: Callable[[str, Breaker], None] = _no_exchange

    def __iter__(self) -> Iterator[tuple[str, Breaker]]:
        return iter(self._known.items())

    def of(self, name: str) -> Breaker:
        """The name's own, which is made when it is asked for first."""
        breaker = self._known.pop(name, None)
        if breaker is None:
            breaker = Breaker(self.rule)
            if len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self.made(name, breaker)
        self._known[name] = breaker
        return breaker

    def get(self, name: str) -> Breaker | None:
        return self._known.get(name)
