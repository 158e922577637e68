"""Counters and histograms in the Prometheus exposition format.

Label values come from the configuration (route and backend names), never from a client's
request, so that clients cannot increase their number. https://prometheus.io/docs/practices/naming/
"""

from collections.abc import Iterable
from operator import sub

from prometheus_client import CollectorRegistry, Gauge

from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine, LineGroup
from strowger_gateway.gateway.observability.telemetry.engine_metrics import EngineCollector
from strowger_gateway.gateway.observability.telemetry.experiment_metrics import ExperimentMetrics
from strowger_gateway.gateway.observability.telemetry.internal_errors import InternalErrors
from strowger_gateway.gateway.observability.telemetry.mirror_metrics import MirrorMetrics
from strowger_gateway.gateway.observability.telemetry.picker_metrics import PickerCollector
from strowger_gateway.gateway.platform.fast_counters import FastCounter, FastHistogram, Labels
from strowger_gateway.gateway.storage.sql.rows import AttemptRow, Source
from strowger_gateway.gateway.storage.sql.traffic.counting import outcome_of

_OVERHEAD = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1),
    *(2.5, 10, 60),
)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics:
    """One registry per process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.engines = EngineCollector()
        self.registry.register(self.engines)
        self.pickers = PickerCollector()
        self.registry.register(self.pickers)
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
        self._attempt_seconds, self._overhead = _shares_of_time(self.registry)
        self._team_requests, self._team_tokens, self._team_cost = _of_teams(self.registry)
        self._hedges, self._continued = _further_attempts(self.registry)
        self.mirrors = MirrorMetrics(self.registry)
        self._cost, self._unpriced = _money(self.registry)
        self.experiments = ExperimentMetrics(self.registry)
        self.in_flight = Gauge(
            "strowger_in_flight_requests", "Requests in flight.", registry=self.registry
        )
        self.buffered = Gauge(
            "strowger_buffered_bytes", "Bytes of request bodies in memory.", registry=self.registry
        )
        self.available, self.untried, self.held = _availability(self.registry)

    def count(self, groups: Iterable[LineGroup]) -> None:
        for group in groups:
            line, count = group.lines[0], len(group.lines)
            route, attempts, target = line.route, line.attempts, ""
            if len(attempts) == 1:
                target = attempts[0].pattern or attempts[0].backend
                took = [line.attempts[0].ms for line in group.lines]
                self._attempt_seconds.observe((target, attempts[0].outcome), took)
                self._overhead.observe((route,), list(map(sub, group.ms, took)))
            elif attempts:
                self._time_several(line)
                served = [one for one in attempts if one.backend == line.backend]
                last = served[0] if served else attempts[-1]
                target = last.pattern or last.backend
            for one in attempts:
                self._attempts.add((one.pattern or one.backend, one.outcome), count)
                if one.hedge:
                    self._hedges.add((route, one.outcome), count)
                if one.continued:
                    self._continued.add((route, one.outcome), count)
            place = route, target
            self._requests.add((line.surface, route, target, line.status), count)
            self._seconds.observe(place, group.ms)
            self._first.observe(place, group.first_ms)
            if len(attempts) == 1 and line.usage_source:
                self._count_tokens(
                    (*place, attempts[0].recorded_role),
                    line.usage_source,
                    group.prompt_tokens,
                    group.completion_tokens,
                )
                costs = [one.cost_usd for one in group.lines if one.cost_usd is not None]
                if costs:
                    self._cost.add((*place, attempts[0].recorded_role), sum(costs))
            if line.team:
                self._count_team(group)
            if line.experiment:
                fallback = "yes" if line.fallback else "no"
                part = line.experiment, line.variant, fallback
                self.experiments.requests.add(part, count)
            if line.unpriced:
                self._unpriced.add(place, count)

    def exemplify(self, line: AccessLine, trace_id: str) -> None:
        """Name the trace of a request that was counted."""
        attempts, target = line.attempts, ""
        if attempts:
            served = [one for one in attempts if one.backend == line.backend]
            last = served[0] if served else attempts[-1]
            target = last.pattern or last.backend
        place = line.route, target
        self._seconds.exemplify(place, line.ms, trace_id, line.time)
        if line.ttft_ms is not None:
            self._first.exemplify(place, line.ttft_ms, trace_id, line.time)

    def _time_several(self, line: AccessLine) -> None:
        """Time the attempts of a request with several. Parallel ones say nothing of the rest."""
        for one in line.attempts:
            if not one.refused:
                place = one.pattern or one.backend, one.outcome
                self._attempt_seconds.observe(place, (one.ms,))
        if not any(one.hedge or one.role for one in line.attempts):
            rest = line.ms - sum([one.ms for one in line.attempts])
            self._overhead.observe((line.route,), (max(rest, 0.0),))

    def _count_team(self, group: LineGroup) -> None:
        line, count = group.lines[0], len(group.lines)
        outcome = outcome_of(line.status, line.error, line.route, tried=bool(line.attempts))
        self._team_requests.add((line.team, line.route, outcome), count)
        place = line.team, line.route
        if group.prompt_tokens:
            self._team_tokens.add((*place, "prompt"), group.prompt_tokens)
        if group.completion_tokens:
            self._team_tokens.add((*place, "completion"), group.completion_tokens)
        costs = [one.cost_usd for one in group.lines if one.cost_usd]
        if costs:
            self._team_cost.add(place, sum(costs))

    def count_attempts_usage(self, line: AccessLine, rows: Iterable[AttemptRow]) -> None:
        """Count the usage of each of several attempts; the access line has only the last one's."""
        for row in rows:
            pattern = line.attempts[row.number - 1].pattern
            self.count_usage((line.route, pattern or row.backend), row)

    def count_usage(self, place: tuple[str, str], row: AttemptRow) -> None:
        """Count the usage of one attempt. place: model, and backend as configured."""
        labels = (*place, row.role)
        self._count_tokens(labels, row.usage_source, row.prompt_tokens, row.completion_tokens)
        if row.cost_usd is not None:
            self._cost.add(labels, row.cost_usd)

    def _count_tokens(
        self, labels: Labels, source: Source, prompt: int | None, completion: int | None
    ) -> None:
        if prompt:
            self._tokens.add((*labels, "prompt", source), prompt)
        if completion:
            self._tokens.add((*labels, "completion", source), completion)


def _shares_of_time(registry: CollectorRegistry) -> tuple[FastHistogram, FastHistogram]:
    """Of attempts, and of what is not within one."""
    attempts = FastHistogram(
        "strowger_attempt_duration_seconds",
        "Duration of attempts, from their start to the end of the backend's answer.",
        ("backend", "outcome"),
        buckets=_SECONDS,
        registry=registry,
    )
    overhead = FastHistogram(
        "strowger_gateway_overhead_seconds",
        "The part of a request that is within none of its attempts: reading it, checks, limits and "
        "guardrails, waiting for room, pauses between attempts, and the end of the response.",
        ("model",),
        buckets=_OVERHEAD,
        registry=registry,
    )
    return attempts, overhead


def _of_teams(registry: CollectorRegistry) -> tuple[FastCounter, FastCounter, FastCounter]:
    """Of requests of keys with a team."""
    labels = ("team", "model")
    return (
        FastCounter(
            "strowger_team_requests",
            "Requests by the key's team and how they ended: answered, failed, client_error, "
            "refused, cancelled.",
            (*labels, "outcome"),
            registry=registry,
        ),
        FastCounter(
            "strowger_team_tokens",
            "Prompt and completion tokens of served responses by the key's team.",
            (*labels, "kind"),
            registry=registry,
        ),
        FastCounter(
            "strowger_team_cost_usd",
            "Cost in US dollars of served responses by the key's team.",
            labels,
            registry=registry,
        ),
    )


def _further_attempts(registry: CollectorRegistry) -> tuple[FastCounter, FastCounter]:
    """Of hedges and of continued streams."""
    hedges = FastCounter(
        "strowger_hedges",
        "Hedges by outcome: ok if the hedge answered first, lost if the first attempt did.",
        ("model", "outcome"),
        registry=registry,
    )
    continued = FastCounter(
        "strowger_continued_streams",
        "Streams that broke off after content and were continued, by the failure.",
        ("model", "code"),
        registry=registry,
    )
    return hedges, continued


def _availability(registry: CollectorRegistry) -> tuple[Gauge, Gauge, Gauge]:
    """Of backends: whether they work, whether that is unknown, and whether operators hold them."""
    labels = ("model", "backend")
    return (
        Gauge(
            "strowger_backend_available",
            "1 while the backend works and takes requests. 0 while it cools down; and until "
            "something succeeds after its circuit opened, its vendor refused the account, or 3 "
            "attempts in a row failed.",
            labels,
            registry=registry,
        ),
        Gauge(
            "strowger_backend_untried",
            "1 until an attempt at the backend has ended: whether it works is not known.",
            labels,
            registry=registry,
        ),
        Gauge(
            "strowger_backend_held",
            "1 while an operator drains or disables the backend, so that it gets no new requests.",
            (*labels, "state"),
            registry=registry,
        ),
    )


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
