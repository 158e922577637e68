"""Counters and histograms in the Prometheus exposition format.

Label values come from the configuration (route and backend names), never from what a client
sent, so that nobody can grow them. https://prometheus.io/docs/practices/naming/
"""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Gauge

from gateway.store.rows import AttemptRow, Role
from gateway.telemetry.access_log import AccessLine
from gateway.telemetry.engine_metrics import EngineCollector
from gateway.telemetry.experiment_metrics import ExperimentMetrics
from gateway.telemetry.fast_counters import FastCounter, FastHistogram, Labels
from gateway.telemetry.internal_errors import InternalErrors
from gateway.telemetry.mirror_metrics import MirrorMetrics

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """One registry a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.engines = EngineCollector()
        self.registry.register(self.engines)
        self.internal_errors = InternalErrors(self.registry)
        self._requests = FastCounter(
            "strowger_requests",
            "Requests by what became of them.",
            ("surface", "model", "backend", "status"),
            registry=self.registry,
        )
        self._seconds = FastHistogram(
            "strowger_request_seconds",
            "From the request's arrival to the end of its answer.",
            ("model", "backend"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._first = FastHistogram(
            "strowger_time_to_first_token_seconds",
            "From the request's arrival to the first content of its answer.",
            ("model", "backend"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._tokens = FastCounter(
            "strowger_tokens",
            "Tokens in and out of attempts by their role; source tells who counted them.",
            ("model", "backend", "role", "kind", "source"),
            registry=self.registry,
        )
        self._attempts = FastCounter(
            "strowger_attempts",
            "Tries at backends by outcome.",
            ("backend", "outcome"),
            registry=self.registry,
        )
        self._hedges = FastCounter(
            "strowger_hedges",
            "Second tries beside one that was late: ok where they were faster, lost where not.",
            ("model", "outcome"),
            registry=self.registry,
        )
        self.mirrors = MirrorMetrics(self.registry)
        self._cost, self._unpriced = _money(self.registry)
        self.trials = ExperimentMetrics(self.registry)
        self.in_flight = Gauge(
            "strowger_in_flight_requests", "Requests being answered.", registry=self.registry
        )
        self.buffered = Gauge(
            "strowger_buffered_bytes", "Request bodies in memory.", registry=self.registry
        )
        self.available = Gauge(
            "strowger_backend_available",
            "1 while a backend may be asked, 0 while it rests or its breaker is open.",
            ("model", "backend"),
            registry=self.registry,
        )

    def book(self, lines: Sequence[AccessLine]) -> None:
        requests: list[Labels] = []
        tries: list[Labels] = []
        hedges: list[Labels] = []
        parts: list[Labels] = []
        for line in lines:
            route, attempts, target = line.route, line.attempts, ""
            if len(attempts) == 1:
                target = attempts[0].pattern or attempts[0].backend
                tries.append((target, attempts[0].outcome))
            elif attempts:
                served = [one for one in attempts if one.backend == line.backend]
                last = served[0] if served else attempts[-1]
                target = last.pattern or last.backend
                tries += [(one.pattern or one.backend, one.outcome) for one in attempts]
                hedges += [(route, one.outcome) for one in attempts if one.hedge]
            place = route, target
            requests.append((line.surface, route, target, line.status))
            self._seconds.observe(place, line.ms / 1e3)
            if line.ttft_ms is not None:
                self._first.observe(place, line.ttft_ms / 1e3)
            if len(attempts) == 1 and line.usage_source:
                self.spend(place, attempts[0].recorded_role, line)
            if line.experiment:
                parts.append((line.experiment, line.variant, "yes" if line.fallback else "no"))
            if line.unpriced:
                self._unpriced.add(place)
        self._requests.add_all(requests)
        self._attempts.add_all(tries)
        self._hedges.add_all(hedges)
        self.trials.requests.add_all(parts)

    def spend_all(self, line: AccessLine, rows: Iterable[AttemptRow]) -> None:
        """What a request's several attempts used: all that its line tells is of the last one."""
        for row in rows:
            pattern = line.attempts[row.number - 1].pattern
            self.spend((line.route, pattern or row.backend), row.role, row)

    def spend(self, place: tuple[str, str], role: Role, used: AccessLine | AttemptRow) -> None:
        """place: model, and backend as configured. used: by one attempt."""
        source = used.usage_source if isinstance(used, AccessLine) else used.source
        if used.prompt_tokens:
            self._tokens.add((*place, role, "prompt", source), used.prompt_tokens)
        if used.completion_tokens:
            self._tokens.add((*place, role, "completion", source), used.completion_tokens)
        if used.cost_usd is not None:
            self._cost.add((*place, role), used.cost_usd)


def _money(registry: CollectorRegistry) -> tuple[FastCounter, FastCounter]:
    """What attempts cost, and of how many requests nobody can price the answer."""
    labels = ("model", "backend")
    return (
        FastCounter(
            "strowger_cost_usd",
            "US dollars by the prices of the configuration: for answers that clients got (served), "
            "and for attempts that failed, lost against a hedge, or were copies.",
            (*labels, "role"),
            registry=registry,
        ),
        FastCounter(
            "strowger_unpriced_requests",
            "Requests whose backend has no price although others have: their cost is unknown.",
            labels,
            registry=registry,
        ),
    )
