"""Metrics of harm limits: pauses of experiments, and sample ratio mismatches."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from strowger_gateway.gateway.experiments.harm_limits import HarmLimitMonitor


class HarmLimitCollector(Collector):
    """Metrics of the process that evaluates harm limits and sample ratios."""

    def __init__(self, judge: HarmLimitMonitor) -> None:
        self._judge = judge

    def collect(self) -> Iterable[Metric]:
        mismatch = GaugeMetricFamily(
            "strowger_experiment_split_mismatch",
            "1 during a sample ratio mismatch: split and weights differ, results are invalid.",
            labels=("experiment",),
        )
        for name, mismatched in self._judge.mismatched.copy().items():
            mismatch.add_metric((name,), mismatched)
        yield mismatch
        pauses = CounterMetricFamily(
            "strowger_experiment_harm_limit_pauses",
            "Pauses of an experiment by a harm limit or a circuit.",
            labels=("experiment",),
        )
        for name, count in self._judge.pauses.copy().items():
            pauses.add_metric((name,), count)
        yield pauses
