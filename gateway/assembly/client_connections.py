"""What a process allows its clients' connections, and their metrics."""

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.config.schema.config import ServerConfig
from strowger_gateway.gateway.governance.access.client_address import ClientAddresses
from strowger_gateway.gateway.governance.access.key_shares import KeyShares
from strowger_gateway.gateway.server.http1.open_connections import ConnectionLimits, OpenConnections
from strowger_gateway.gateway.server.open_files import (
    client_room,
    open_files,
    open_files_limit,
    reserved,
)


def connection_limits(server: ServerConfig, limit: int) -> ConnectionLimits:
    """Return what a process allows its clients. limit: of its open files."""
    kept = reserved(limit)
    wanted = (
        2 * server.max_in_flight if server.max_connections == "auto" else server.max_connections
    )
    most = min(wanted, client_room(limit))
    proxies = ClientAddresses(server.trusted_proxies)
    return ConnectionLimits(
        most=most,
        spare=max(min(kept // 4, most // 8), 1),
        per_address=server.max_connections_per_address,
        exempt=proxies.trusts,
        files=limit - kept,
    )


def limits_in_force(
    server: Callable[[], ServerConfig], shares: KeyShares
) -> Callable[[], ConnectionLimits]:
    """Return a function that returns the limits of the configuration in force.

    shares: get the number of requests for which there are connections.
    """
    limit = open_files_limit()
    settings = server()
    limits = connection_limits(settings, limit)
    shares.room = limits.most

    def current() -> ConnectionLimits:
        nonlocal settings, limits
        if settings is not (found := server()):
            settings, limits = found, connection_limits(found, limit)
            shares.room = limits.most
        return limits

    return current


class FilesCollector(Collector):
    """Metrics of one process: its open files, and its clients' connections."""

    def __init__(self, connections: OpenConnections) -> None:
        self._connections = connections

    def collect(self) -> Iterable[Metric]:
        connections = self._connections
        yield GaugeMetricFamily(
            "strowger_open_files", "Open files of the serving processes.", value=open_files()
        )
        yield GaugeMetricFamily(
            "strowger_open_files_limit",
            "How many files the serving processes may open, each its share.",
            value=open_files_limit(),
        )
        yield GaugeMetricFamily(
            "strowger_client_connections",
            "Connections of clients.",
            value=len(connections),
        )
        closed = CounterMetricFamily(
            "strowger_client_connections_closed",
            "Connections closed to make room (stranger, idle, slow), or refused (full, address).",
            labels=["why"],
        )
        for why in ("stranger", "idle", "slow", "full", "address"):
            closed.add_metric([why], connections.closed[why])
        yield closed
