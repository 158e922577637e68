"""What processes and replicas send each other about backends: breakers and load."""

from msgspec import Struct

from gateway.routing.resilience.circuit_breaker import BreakerSnapshot


class BreakerUpdate(Struct, frozen=True, kw_only=True, tag=True):
    """Breakers that have changed, by the keys of Runtime.backends. Both ways."""

    health: dict[str, BreakerSnapshot]


class LoadUpdate(Struct, frozen=True, kw_only=True, tag=True):
    """Attempts under way by backend, where that changed; requests and bytes of bodies in all.

    A worker tells its own, and is told the sum of the others'.
    """

    attempts: dict[str, int]
    in_flight: int
    buffered: int
