"""Count spans that were sent to the collector, and spans that were dropped."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector


class SpanCounts(Collector):
    """The counts of one process."""

    def __init__(self) -> None:
        self.sent = 0
        self.dropped = 0

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the metric `strowger_otlp_spans_total`."""
        family = CounterMetricFamily(
            "strowger_otlp_spans",
            "Spans that the OpenTelemetry collector received, and spans that were dropped.",
            labels=("outcome",),
        )
        family.add_metric(("sent",), self.sent)
        family.add_metric(("dropped",), self.dropped)
        yield family
