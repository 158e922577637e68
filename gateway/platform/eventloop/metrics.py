"""Metrics of the event loop's batch."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.platform.eventloop.turn import Turn


class TurnCollector(Collector):
    """Metrics of a serving process."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily(
            "strowger_requests_without_task",
            "Requests that waited for nothing but their backend's answer.",
            value=self._turn.inline_finished,
        )
