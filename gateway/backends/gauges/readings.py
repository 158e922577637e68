"""How busy a replica says it is, and the message that carries that to the serving processes."""

from msgspec import Struct

from strowger_gateway.gateway.backends.discovery.source import HostPort


class Reading(Struct, frozen=True, kw_only=True):
    """The gauges of one server. waiting, running: requests. cache_used: 0 to 1; `None` unknown."""

    waiting: float
    running: float
    cache_used: float | None = None


class ReplicaReading(Struct, frozen=True, kw_only=True):
    """The reading of one replica of a provider. reading: `None` if its load is unknown now."""

    provider: str
    address: HostPort
    reading: Reading | None


class ReplicaReadings(Struct, frozen=True, kw_only=True, tag=True):
    """New readings, a moment old. Nothing has changed about replicas that are not among them."""

    readings: tuple[ReplicaReading, ...] = ()
