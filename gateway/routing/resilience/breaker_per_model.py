"""The circuit breakers of a wildcard backend: one per model name that clients have requested."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from strowger_gateway.gateway.config.schema.failover import BreakerRule
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold
from strowger_gateway.gateway.routing.resilience.circuit_breaker import Breaker
from strowger_gateway.gateway.routing.resilience.replica import REPLICA_MARK

KEPT = 512
"""Names per backend. Clients choose them, so the least recently requested one is evicted."""

NAMED = "\0"
"""In a breaker's key: separates the key of the wildcard backend from the model name."""

MOST = 4096
"""Names and replicas over all backends whose state, as received from other processes, is kept."""

_Known = TypeVar("_Known")


def bound(known: dict[str, _Known]) -> None:
    """Evict the oldest model names of wildcard backends, and the oldest replicas.

    known: by the breakers' keys.
    """
    if len(known) > MOST:
        names = [key for key in known if NAMED in key or REPLICA_MARK in key]
        for key in names[: len(known) - MOST]:
            del known[key]


def _no_exchange(name: str, breaker: Breaker) -> None:
    """The hook for new breakers in a single process: there is no other to share them with."""


def _not_held(name: str) -> BackendHold | None:
    """No name is held by itself."""


class Breakers:
    """One breaker per model name: a 429 or a failure counts for that model alone.

    Otherwise a client that requests names that do not exist, or one model that is out of quota,
    would open the circuit for all the others.

    whole: counts the failures in a row of all names together; no request is sent by its state.
    made, watched: called with the name and the breaker when one is created.
    """

    __slots__ = ("_held", "_known", "_whole", "made", "rule", "watched")

    def __init__(self, rule: BreakerRule, whole: Breaker | None = None) -> None:
        self.rule = rule
        self._known: dict[str, Breaker] = {}
        self._whole = whole
        self._held: Callable[[str], BackendHold | None] = _not_held
        if whole is not None:
            whole.on_unsettled = self._unsettle
        self.made: Callable[[str, Breaker], None] = _no_exchange
        self.watched: Callable[[str, Breaker], None] = _no_exchange

    def __iter__(self) -> Iterator[tuple[str, Breaker]]:
        return iter(self._known.items())

    def of(self, name: str) -> Breaker:
        """The breaker of a name, created on first use."""
        breaker = self._known.pop(name, None)
        if breaker is None:
            breaker = Breaker(self.rule)
            breaker.whole = self._whole
            hold = None if self._whole is None else self._whole.hold
            breaker.put_on_hold(hold or self._held(name))
            if len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self.made(name, breaker)
            self.watched(name, breaker)
        self._known[name] = breaker
        return breaker

    def put_on_hold(
        self, hold: BackendHold | None, held: Callable[[str], BackendHold | None] | None = None
    ) -> None:
        """Hold the backend with all its names, or end that. held: returns the hold of one name."""
        self._held = held or _not_held
        for name, breaker in self._known.items():
            breaker.put_on_hold(hold or self._held(name))

    def get(self, name: str) -> Breaker | None:
        """The breaker of a name; `None` if there is none yet."""
        return self._known.get(name)

    def _unsettle(self) -> None:
        """Something has failed, so that the next success of any name is news."""
        for breaker in self._known.values():
            breaker.unsettled = True
