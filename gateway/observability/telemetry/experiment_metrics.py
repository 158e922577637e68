"""Metrics of experiments: requests by variant, and pauses."""

from prometheus_client import CollectorRegistry, Gauge

from strowger_gateway.gateway.platform.fast_counters import FastCounter


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
