"""Metrics of experiments: requests by variant, pauses, and sample ratio mismatches."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.experiments.service.harm_limits import HarmLimitMonitor
from gateway.telemetry.fast_counters import FastCounter


class ExperimentMetrics:
    """Metrics of one process.

    requests: of experiments. paused: 1 while the control serves all requests.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = FastCounter(
            "strowger_experiment_requests",
            "Requests of experiments by variant; those without a variant were excluded.",
            ("experiment", "variant", "fallback"),
            registry=registry,
        )
        self.paused = Gauge(
            "strowger_experiment_paused",
            "1 while the control serves all requests.",
            ("experiment",),
            registry=registry,
        )


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
            "Pauses of an experiment by a harm limit.",
            labels=("experiment",),
        )
        for name, count in self._judge.pauses.copy().items():
            pauses.add_metric((name,), count)
        yield pauses
