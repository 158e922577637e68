"""What is counted of experiments: who took part, and which of them are paused."""

from prometheus_client import CollectorRegistry, Gauge

from gateway.telemetry.counts import Counts


class TrialMetrics:
    """In a process's registry. paused: 1 while control serves everyone."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counts(
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

    def count(self, experiment: str, variant: str, *, fallback: bool) -> None:
        self._requests.add((experiment, variant, "yes" if fallback else "no"))
