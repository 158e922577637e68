"""Metrics of the leader process: reloads and worker restarts."""

from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge

from strowger_gateway.gateway.observability.telemetry.internal_errors import InternalErrors

_DISTRIBUTION: Final = "strowger-gateway"


class ProcessMetrics:
    """The leader's registry, which is merged with those of the workers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reloads = Counter(
            "strowger_reloads",
            "Configuration reloads by outcome.",
            ("outcome",),
            registry=self.registry,
        )
        self._refused = Gauge(
            "strowger_configuration_refused",
            "1 while the current configuration file is invalid and an older version is in force.",
            registry=self.registry,
        )
        self._config = Gauge(
            "strowger_config_info",
            "1 with the hash of the configuration in force, secrets aside.",
            ("hash",),
            registry=self.registry,
        )
        Gauge(
            "strowger_build_info",
            "1 with the version of the gateway and of Python.",
            ("version", "python"),
            registry=self.registry,
        ).labels(_version(), python_version()).set(1)
        self.workers = Gauge("strowger_workers", "Worker processes.", registry=self.registry)
        self.restarts = Counter(
            "strowger_worker_restarts", "Workers that exited unexpectedly.", registry=self.registry
        )
        self.internal_errors = InternalErrors(self.registry)
        for outcome in ("done", "refused"):
            self._reloads.labels(outcome)

    def configured(self, digest: str) -> None:
        """A configuration with this hash is in force."""
        self._config.clear()
        self._config.labels(digest).set(1)

    def reloaded(self, outcome: Literal["done", "refused"]) -> None:
        self._reloads.labels(outcome).inc()

    def refused(self, now: bool) -> None:
        self._refused.set(now)


def _version() -> str:
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return "not installed"
