"""Count unhandled exceptions by place: each of them is a bug."""

from prometheus_client import CollectorRegistry, Counter


class InternalErrors:
    """The counter of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._errors = Counter(
            "strowger_internal_errors",
            "Unhandled exceptions by route or background task.",
            ("where",),
            registry=registry,
        )

    def count(self, where: str) -> None:
        """where: a route as declared, or a task, of a small fixed set: it becomes a label."""
        self._errors.labels(where).inc()
