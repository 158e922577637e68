"""The other processes of the gateway, as a source of counts, traffic and recent requests."""

from collections.abc import Sequence
from typing import Protocol

from strowger_gateway.gateway.experiments.history import ExperimentHistory
from strowger_gateway.gateway.observability.telemetry.metric_snapshot import MetricFamilies
from strowger_gateway.gateway.observability.telemetry.recent_requests import RecentRequest
from strowger_gateway.gateway.observability.telemetry.time_series import BackendSeries, Window
from strowger_gateway.gateway.routing.backend_events.event import ListedEvent


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

    async def experiment_history(self) -> ExperimentHistory:
        """The history of experiments, as the leader has recorded it."""
        ...

    async def backend_events(self) -> Sequence[ListedEvent] | None:
        """All events, the newest first, as the leader has them; `None`: this process has them."""
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

    async def experiment_history(self) -> ExperimentHistory:
        return ExperimentHistory()

    async def backend_events(self) -> Sequence[ListedEvent] | None:
        return None
