"""The other processes of the gateway, as a source of counts, traffic and recent requests."""

from collections.abc import Sequence
from typing import Protocol

from strowger_gateway.gateway.observability.telemetry.metric_snapshot import (
    MetricFamilies,
    snapshot,
)
from strowger_gateway.gateway.observability.telemetry.process_metrics import ProcessMetrics
from strowger_gateway.gateway.observability.telemetry.recent_requests import RecentRequest
from strowger_gateway.gateway.storage.sql.traffic.series import BackendSeries
from strowger_gateway.gateway.storage.sql.traffic.windows import Window


class Peers(Protocol):
    """The other processes. Each method raises Unavailable if one of them does not answer."""

    async def counted(self) -> Sequence[MetricFamilies]:
        """The metrics of each."""
        ...

    async def series_by_backend(
        self, window: Window, at: float
    ) -> Sequence[tuple[BackendSeries, ...]]:
        """The traffic of each by backend. at: Unix seconds."""
        ...

    async def recent(self, limit: int, request_id: str) -> Sequence[list[RecentRequest]]:
        """The last requests of each, or those with this id."""
        ...


class NoPeers:
    """The peers of a process that runs by itself."""

    async def counted(self) -> Sequence[MetricFamilies]:
        return ()

    async def series_by_backend(
        self, window: Window, at: float
    ) -> Sequence[tuple[BackendSeries, ...]]:
        return ()

    async def recent(self, limit: int, request_id: str) -> Sequence[list[RecentRequest]]:
        return ()


class LeaderCounters(NoPeers):
    """The leader's counters of this process, presented as a peer's."""

    def __init__(self, metrics: ProcessMetrics) -> None:
        self._metrics = metrics

    async def counted(self) -> Sequence[MetricFamilies]:
        return (snapshot(self._metrics.registry),)
