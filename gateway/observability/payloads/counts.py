"""Count payloads that were logged, and those that were not."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector


class PayloadCounts(Collector):
    """The counts of one process.

    written: to a file, or accepted by the collector. dropped: no memory or place in the queue, or
    no time left. failed: the disk or the collector refused them.
    """

    def __init__(self) -> None:
        self.written = 0
        self.dropped = 0
        self.failed = 0

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the metric `strowger_payloads_total`."""
        family = CounterMetricFamily(
            "strowger_payloads",
            "Payloads that were logged, dropped before, or that could not be written.",
            labels=("outcome",),
        )
        family.add_metric(("written",), self.written)
        family.add_metric(("dropped",), self.dropped)
        family.add_metric(("failed",), self.failed)
        yield family
