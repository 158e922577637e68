"""Count what the collector received, what it rejected, and what was dropped."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector


class ExportCounts(Collector):
    """The counts of one process for one kind of item.

    sent: the collector has them. rejected: it received them and refuses them for good. dropped:
    they were not delivered, because the queue was full or the time to send them was over.
    """

    def __init__(self, items: str) -> None:
        """items: such as `spans`; part of the metric's name."""
        self._items = items
        self.sent = 0
        self.rejected = 0
        self.dropped = 0

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the metric `strowger_otlp_ITEMS_total`."""
        family = CounterMetricFamily(
            f"strowger_otlp_{self._items}",
            f"OTLP {self._items} that the collector received, that it rejected, or that were "
            "dropped before.".replace("_", " "),
            labels=("outcome",),
        )
        family.add_metric(("sent",), self.sent)
        family.add_metric(("rejected",), self.rejected)
        family.add_metric(("dropped",), self.dropped)
        yield family
