"""What is counted of experiments: who took part, and which of them are paused."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class TrialMetrics:
    """In a process's registry. paused: 1 while control serves everyone."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
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
        self._kept: dict[tuple[str, str, bool], Counter] = {}

    def count(self, experiment: str, variant: str, *, fallback: bool) -> None:
        key = (experiment, variant, fallback)
        counter = self._kept.get(key)
        if counter is None:
            counter = self._requests.labels(experiment, variant, "yes" if fallback else "no")
            self._kept[key] = counter
        counter.inc()
