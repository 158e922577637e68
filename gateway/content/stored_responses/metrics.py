"""Metrics of stored responses, of one serving process."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.content.stored_responses.archive import OUTCOMES, ResponseArchive


class ResponseCollector(Collector):
    """How storing ended."""

    def __init__(self, archive: ResponseArchive) -> None:
        self._archive = archive

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "strowger_responses_stored",
            "Responses that were to be stored, by outcome; all but `stored` left unstored.",
            labels=["outcome"],
        )
        for outcome in OUTCOMES:
            family.add_metric([outcome], self._archive.counts[outcome])
        yield family
