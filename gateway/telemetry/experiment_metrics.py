"""What is counted of experiments: who took part, which are paused, and what is wrong with them."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.experiments.service.guardrails import GuardrailMonitor
from gateway.telemetry.fast_counters import FastCounter


class ExperimentMetrics:
    """In a process's registry.

    requests: of experiments. paused: 1 while control serves everyone.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = FastCounter(
            "strowger_experiment_requests",
            "Requests of experiments by variant; those without one were left out.",
            ("experiment", "variant", "fallback"),
            registry=registry,
        )
        self.paused = Gauge(
            "strowger_experiment_paused",
            "1 while control serves everyone.",
            ("experiment",),
            registry=registry,
        )


class GuardrailCollector(Collector):
    """Of the process that minds guardrails and splits."""

    def __init__(self, judge: GuardrailMonitor) -> None:
        self._judge = judge

    def collect(self) -> Iterable[Metric]:
        mismatch = GaugeMetricFamily(
            "strowger_experiment_split_mismatch",
            "1 while units are not split as the weights say, and nothing else counts.",
            labels=("experiment",),
        )
        for name, mismatched in self._judge.mismatched.copy().items():
            mismatch.add_metric((name,), mismatched)
        yield mismatch
        pauses = CounterMetricFamily(
            "strowger_experiment_guardrail_pauses",
            "Times that a guardrail paused an experiment.",
            labels=("experiment",),
        )
        for name, count in self._judge.pauses.copy().items():
            pauses.add_metric((name,), count)
        yield pauses
