"""Counters and histograms in the Prometheus exposition format.

Label values come from the configuration (route and backend names), never from a client's
request, so that clients cannot increase their number. https://prometheus.io/docs/practices/naming/
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
    """One registry per process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.engines = EngineCollector()
        self.registry.register(self.engines)
        self.internal_errors = InternalErrors(self.registry)
        self._requests = FastCounter(
            "strowger_requests",
            "Requests by surface, model, backend and response status.",
            ("surface", "model", "backend", "status"),
            registry=self.registry,
        )
        self._seconds = FastHistogram(
            "strowger_request_seconds",
            "Latency: from the request's arrival to the end of the response.",
            ("model", "backend"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._first = FastHistogram(
            "strowger_time_to_first_token_seconds",
            "From the request's arrival to the first content of the response.",
            ("model", "backend"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._tokens = FastCounter(
            "strowger_tokens",
            "Prompt and completion tokens of attempts by role; source: where the count comes from.",
            ("model", "backend", "role", "kind", "source"),
            registry=self.registry,
        )
        self._attempts = FastCounter(
            "strowger_attempts",
            "Attempts by backend and outcome.",
            ("backend", "outcome"),
            registry=self.registry,
        )
        self._hedges = FastCounter(
            "strowger_hedges",
            "Hedges by outcome: ok if the hedge answered first, lost if the first attempt did.",
            ("model", "outcome"),
            registry=self.registry,
        )
        self.mirrors = MirrorMetrics(self.registry)
        self._cost, self._unpriced = _money(self.registry)
        self.experiments = ExperimentMetrics(self.registry)
        self.in_flight = Gauge(
            "strowger_in_flight_requests", "Requests in flight.", registry=self.registry
        )
        self.buffered = Gauge(
            "strowger_buffered_bytes", "Bytes of request bodies in memory.", registry=self.registry
        )
        self.available = Gauge(
            "strowger_backend_available",
            "1 while the backend accepts attempts, 0 while it cools down or its circuit is open.",
            ("model", "backend"),
            registry=self.registry,
        )

    def count(self, lines: Sequence[AccessLine]) -> None:
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
                # AttemptRecord.recorded_role inlined: an only attempt is neither hedge nor mirror
                served = attempts[0].outcome in ("ok", "cancelled")
                self.count_usage(place, "served" if served else "failed", line)
            if line.experiment:
                parts.append((line.experiment, line.variant, "yes" if line.fallback else "no"))
            if line.unpriced:
                self._unpriced.add(place)
        self._requests.add_all(requests)
        self._attempts.add_all(tries)
        self._hedges.add_all(hedges)
        self.experiments.requests.add_all(parts)

    def count_attempts_usage(self, line: AccessLine, rows: Iterable[AttemptRow]) -> None:
        """Count the usage of each of several attempts; the access line has only the last one's."""
        for row in rows:
            pattern = line.attempts[row.number - 1].pattern
            self.count_usage((line.route, pattern or row.backend), row.role, row)

    def count_usage(
        self, place: tuple[str, str], role: Role, used: AccessLine | AttemptRow
    ) -> None:
        """Count the usage of one attempt. place: model, and backend as configured."""
        source = used.usage_source if isinstance(used, AccessLine) else used.source
        if used.prompt_tokens:
            self._tokens.add((*place, role, "prompt", source), used.prompt_tokens)
        if used.completion_tokens:
            self._tokens.add((*place, role, "completion", source), used.completion_tokens)
        if used.cost_usd is not None:
            self._cost.add((*place, role), used.cost_usd)


def _money(registry: CollectorRegistry) -> tuple[FastCounter, FastCounter]:
    """Counters of the cost of attempts, and of requests whose backend has no price."""
    labels = ("model", "backend")
    return (
        FastCounter(
            "strowger_cost_usd",
            "Cost in US dollars by the configured prices: of served responses (role served), and "
            "of attempts that failed, lost against a hedge, or were mirrored copies.",
            (*labels, "role"),
            registry=registry,
        ),
        FastCounter(
            "strowger_unpriced_requests",
            "Requests of unknown cost: prices are configured, but none for this backend.",
            labels,
            registry=registry,
        ),
    )
