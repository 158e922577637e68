"""Messages about backends between processes and replicas: breakers and load."""

from msgspec import Struct

from gateway.routing.resilience.circuit_breaker import BreakerSnapshot


class BreakerUpdate(Struct, frozen=True, kw_only=True, tag=True):
    """Changed breakers, by the keys of Runtime.backends; sent in both directions."""

    health: dict[str, BreakerSnapshot]


class LoadUpdate(Struct, frozen=True, kw_only=True, tag=True):
    """Changed counts of attempts in flight by backend; total requests and bytes of bodies.

    A worker sends its own numbers and receives the sum of the others'.
    processes: that serve requests, 1 for a worker. differing: replicas with another configuration.
    """

    attempts: dict[str, int]
    in_flight: int
    buffered: int
    processes: int = 1
    differing: int = 0
