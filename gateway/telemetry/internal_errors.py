"""Bugs that showed: exceptions that nothing handled, by where."""

from prometheus_client import CollectorRegistry, Counter


class InternalErrors:
    """One counter of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._errors = Counter(
            "strowger_internal_errors",
            "Exceptions that nothing handled, by the route or the background task.",
            ("where",),
            registry=registry,
        )

    def count(self, where: str) -> None:
        """where: a route as it is declared, or a task; one of a fixed few, for it is a label."""
        self._errors.labels(where).inc()
