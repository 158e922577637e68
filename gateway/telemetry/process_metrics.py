"""What the process that leads counts: reloads, and its workers' restarts."""

from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge

from gateway.telemetry.internal_errors import InternalErrors


class ProcessMetrics:
    """A registry of its own, which is added to what the processes that serve have counted."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reloads = Counter(
            "strowger_reloads",
            "Changes of the configuration by what became of them.",
            ("outcome",),
            registry=self.registry,
        )
        self._refused = Gauge(
            "strowger_configuration_refused",
            "1 while the file as it is now was refused and an older one is in force.",
            registry=self.registry,
        )
        self.workers = Gauge(
            "strowger_workers", "Processes that serve requests.", registry=self.registry
        )
        self.restarts = Counter(
            "strowger_worker_restarts", "Workers that ended unasked.", registry=self.registry
        )
        self.internal_errors = InternalErrors(self.registry)
        for outcome in ("done", "refused"):
            self._reloads.labels(outcome)

    def reloaded(self, outcome: Literal["done", "refused"]) -> None:
        self._reloads.labels(outcome).inc()

    def refused(self, now: bool) -> None:
        self._refused.set(now)
