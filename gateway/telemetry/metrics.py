"""Counters and histograms in the Prometheus exposition format.

Label values come from the configuration (route and backend names), never from what a client
sent, so that nobody can grow them. https://prometheus.io/docs/practices/naming/
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gateway.telemetry.access_log import AccessLine
from gateway.telemetry.engine_metrics import EngineCollector
from gateway.telemetry.mirror_metrics import MirrorMetrics
from gateway.telemetry.trial_metrics import TrialMetrics

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """One registry a process. Label sets are resolved once and kept: a request costs sums."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.engines = EngineCollector()
        self.registry.register(self.engines)
        self._requests = Counter(
            "strowger_requests",
            "Requests by what became of them.",
            ("surface", "model", "backend", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "strowger_request_seconds",
            "From the request's arrival to the end of its answer.",
            ("model", "backend"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._first = Histogram(
            "strowger_first_content_seconds",
            "From the request's arrival to the first content of its answer.",
            ("model", "backend"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._tokens = Counter(
            "strowger_tokens",
            "Tokens in and out; source tells who counted them.",
            ("model", "backend", "kind", "source"),
            registry=self.registry,
        )
        self._attempts = Counter(
            "strowger_attempts",
            "Tries at backends by outcome.",
            ("backend", "outcome"),
            registry=self.registry,
        )
        self._hedges = Counter(
            "strowger_hedges",
            "Second tries beside one that was late: ok where they were faster, lost where not.",
            ("model", "outcome"),
            registry=self.registry,
        )
        self.mirrors = MirrorMetrics(self.registry)
        self._cost, self._unpriced = _money(self.registry)
        self.trials = TrialMetrics(self.registry)
        self.in_flight = Gauge(
            "strowger_in_flight_requests", "Requests being answered.", registry=self.registry
        )
        self.buffered = Gauge(
            "strowger_buffered_bytes", "Request bodies in memory.", registry=self.registry
        )
        self.available = Gauge(
            "strowger_backend_available",
            "1 while a backend may be asked, 0 while it rests or its breaker is open.",
            ("backend",),
            registry=self.registry,
        )
        self._kept: dict[tuple[str, str, str, int], tuple[Counter, Histogram, Histogram]] = {}
        self._kept_tokens: dict[tuple[str, str, str, str], Counter] = {}
        self._kept_attempts: dict[tuple[str, str], Counter] = {}

    def book(self, line: AccessLine) -> None:
        last = line.attempts[-1] if line.attempts else None
        if last is not None and last.backend != line.backend:
            last = next((one for one in line.attempts if one.backend == line.backend), last)
        target = (last.pattern or last.backend) if last else ""
        key = (line.surface, line.route, target, line.status)
        kept = self._kept.get(key)
        if kept is None:
            surface, model, backend, status = key
            kept = self._kept[key] = (
                self._requests.labels(surface, model, backend, str(status)),
                self._seconds.labels(model, backend),
                self._first.labels(model, backend),
            )
        kept[0].inc()
        kept[1].observe(line.ms / 1e3)
        if line.ttft_ms is not None:
            kept[2].observe(line.ttft_ms / 1e3)
        for attempt in line.attempts:
            self._attempt(attempt.pattern or attempt.backend, attempt.outcome).inc()
            if attempt.hedge:
                self._hedges.labels(line.route, attempt.outcome).inc()
        if line.usage_source:
            self._book_tokens(line, target, "prompt", line.prompt_tokens)
            self._book_tokens(line, target, "completion", line.completion_tokens)
        if line.experiment:
            self.trials.count(line.experiment, line.variant, fallback=line.fallback)
        if line.cost_usd is not None:
            self._cost.labels(line.route, target).inc(line.cost_usd)
        elif line.unpriced:
            self._unpriced.labels(line.route, target).inc()

    def _attempt(self, backend: str, outcome: str) -> Counter:
        counter = self._kept_attempts.get((backend, outcome))
        if counter is None:
            counter = self._attempts.labels(backend, outcome)
            self._kept_attempts[backend, outcome] = counter
        return counter

    def _book_tokens(self, line: AccessLine, target: str, kind: str, count: int | None) -> None:
        if not count:
            return
        key = (line.route, target, kind, line.usage_source)
        counter = self._kept_tokens.get(key)
        if counter is None:
            counter = self._kept_tokens[key] = self._tokens.labels(*key)
        counter.inc(count)


def _money(registry: CollectorRegistry) -> tuple[Counter, Counter]:
    """What answers cost, and how many of them nobody can price."""
    labels = ("model", "backend")
    return (
        Counter(
            "strowger_cost_usd",
            "US dollars by the prices of the configuration.",
            labels,
            registry=registry,
        ),
        Counter(
            "strowger_unpriced_requests",
            "Requests whose backend has no price although others have: their cost is unknown.",
            labels,
            registry=registry,
        ),
    )
