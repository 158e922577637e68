"""Push cumulative metrics to a collector at an interval, and once more at the end."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from strowger_gateway.gateway.observability.otlp.collector import CollectorClient
from strowger_gateway.gateway.observability.otlp.counts import ExportCounts
from strowger_gateway.gateway.observability.otlp.exporter import wait
from strowger_gateway.gateway.observability.otlp.protobuf import export_request
from strowger_gateway.gateway.observability.otlp.resource import Resource
from strowger_gateway.gateway.platform.background import OnCrash, keep_running

PATH: Final = "/v1/metrics"

_log = logging.getLogger("strowger.otlp")

Collect = Callable[[], tuple[list[bytes], int]]
"""Returns the metrics, each as field 2 of ScopeMetrics, and the number of their data points."""


class MetricPusher:
    """Pushes until it is closed. A push that fails is not repeated: the next one has everything.

    It comes later than the interval if the collector asks for that.

    counts: of data points; `dropped` are those of failed pushes.
    """

    def __init__(
        self,
        interval_s: float,
        client: CollectorClient,
        resource: Resource,
        collect: Collect,
        counts: ExportCounts,
        crashed: OnCrash,
    ) -> None:
        self._interval_s = interval_s
        self._client = client
        self._resource = resource
        self._collect = collect
        self._counts = counts
        self._failing = False
        self._stopping = asyncio.Event()
        name = "OTLP exporter of metrics"
        self._task = asyncio.create_task(keep_running(name, self._run, crashed), name=name)

    async def close(self, within_s: float) -> None:
        """Push once more, for at most this many seconds."""
        self._stopping.set()
        try:
            await asyncio.wait({self._task}, timeout=within_s)
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._client.close()

    async def _run(self) -> None:
        last, wait_s = False, 0.0
        while not last:
            await wait(self._stopping, max(self._interval_s, wait_s))
            last = self._stopping.is_set()
            wait_s = await self._push()

    async def _push(self) -> float:
        """Push, and return the seconds that the collector asks to wait for."""
        metrics, points = self._collect()
        if not points:
            return 0.0
        resource = self._resource
        body = export_request(metrics, resource.attributes, resource.scope, resource.schema_url)
        outcome = await self._client.post(PATH, body)
        rejected = min(outcome.rejected, points)
        problem = outcome.problem
        if problem and outcome.again:
            self._counts.dropped += points
        elif problem:
            self._counts.rejected += points
        else:
            self._counts.sent += points - rejected
            self._counts.rejected += rejected
            if rejected:
                problem = f"{rejected} of {points} data points rejected: {outcome.reason}"
        if problem and not self._failing:
            _log.warning("the OpenTelemetry collector accepts no metrics: %s", problem)
        elif self._failing and not problem:
            _log.info("the OpenTelemetry collector accepts metrics again")
        self._failing = bool(problem)
        return outcome.wait_s or 0.0
