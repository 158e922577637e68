"""Messages about backends between processes and gateways: breakers, outcomes and load."""

from msgspec import Struct

from strowger_gateway.gateway.routing.resilience.breaker_snapshot import BreakerSnapshot


class BreakerUpdate(Struct, frozen=True, kw_only=True, tag=True):
    """Changed breakers, by the keys of Runtime.backends; sent in both directions."""

    health: dict[str, BreakerSnapshot]


class BreakerReset(Struct, frozen=True, kw_only=True, tag=True):
    """Backends whose circuits a reload has begun again; from a worker to the leader.

    backends: keys of Runtime.backends. What the leader knows about them is of the old ones.
    """

    backends: tuple[str, ...]


class LoadUpdate(Struct, frozen=True, kw_only=True, tag=True):
    """Changed counts of attempts in flight by backend; total requests and bytes of bodies.

    A worker sends its own numbers and receives the sum of the others'.
    processes: that serve requests, 1 for a worker. differing: gateways with another configuration.
    """

    attempts: dict[str, int]
    in_flight: int
    buffered: int
    processes: int = 1
    differing: int = 0


class NewOutcomes(Struct, frozen=True, kw_only=True, array_like=True):
    """How attempts at one backend ended in one process since its last message.

    recent: the change of how many ended within the breaker's window; may be negative.
    """

    failed: int
    succeeded: int
    recent: int


class OutcomeUpdate(Struct, frozen=True, kw_only=True, tag=True):
    """Outcomes of backends that fail or are watched, by breaker; from a worker to the leader."""

    outcomes: dict[str, NewOutcomes]


class OutcomeWatch(Struct, frozen=True, kw_only=True, tag=True):
    """The breakers of which every process reports outcomes, and since when; to all workers.

    since: monotonic seconds of this machine. Replaces the previous list. A worker that has not
    received one reports nothing: no other gateway would read it.
    """

    since: dict[str, float]


class ProbesAt(Struct, frozen=True, kw_only=True, tag=True):
    """Probes of the processes exclude each other by locks of this file.

    file: bytes, because names of files need not be Unicode.
    """

    file: bytes


FromWorker = BreakerReset | BreakerUpdate | LoadUpdate | OutcomeUpdate
ToWorker = BreakerUpdate | LoadUpdate | OutcomeWatch
