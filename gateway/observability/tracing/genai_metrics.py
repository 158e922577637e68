"""The metrics of the GenAI conventions, from the records of ended requests.

https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-metrics.md
"""

import time
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.observability.otlp.histogram import (
    CumulativeHistogram,
    histogram_metric,
)
from strowger_gateway.gateway.observability.otlp.protobuf import Value
from strowger_gateway.gateway.observability.tracing import conventions as names
from strowger_gateway.gateway.observability.tracing.spans import FINE, served_attempt
from strowger_gateway.gateway.routing.request_record import AttemptRecord, RequestRecord
from strowger_gateway.schemas.events import Usage

DURATION_BOUNDS: Final = tuple(0.01 * 2**step for step in range(14))
TOKEN_BOUNDS: Final = tuple(4.0**step for step in range(14))
FIRST_TOKEN_BOUNDS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1),
    *(0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
PER_TOKEN_BOUNDS: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5),
)


class MetricSpec(Struct, frozen=True, kw_only=True):
    """A histogram of the conventions."""

    name: str
    description: str
    unit: str
    bounds: tuple[float, ...]


DURATION: Final = MetricSpec(
    name=names.OPERATION_DURATION,
    description="Duration of one attempt at a backend.",
    unit="s",
    bounds=DURATION_BOUNDS,
)
TOKENS: Final = MetricSpec(
    name=names.TOKEN_USAGE,
    description="Tokens that one attempt used, as its backend reported them.",
    unit="{token}",
    bounds=TOKEN_BOUNDS,
)
FIRST_TOKEN: Final = MetricSpec(
    name=names.TIME_TO_FIRST_TOKEN,
    description="Time from a streamed request's head to its first content.",
    unit="s",
    bounds=FIRST_TOKEN_BOUNDS,
)
PER_TOKEN: Final = MetricSpec(
    name=names.TIME_PER_OUTPUT_TOKEN,
    description="Time per token of a streamed answer after its first content.",
    unit="s",
    bounds=PER_TOKEN_BOUNDS,
)
SPECS: Final = (DURATION, TOKENS, FIRST_TOKEN, PER_TOKEN)

_Key = tuple[str, ...]


class GenAiMetrics:
    """The time series of one process, since it started.

    Their number is bounded by the configuration: backends that are a wildcard are one series.
    """

    def __init__(self, adapter_of: Callable[[str], str]) -> None:
        self._adapter_of = adapter_of
        self._started = time.time_ns()
        self._series: dict[MetricSpec, dict[_Key, CumulativeHistogram]] = {
            spec: {} for spec in SPECS
        }

    def observe(self, record: RequestRecord, ended: float) -> None:
        """Count a request that has ended, and its attempts. ended: the clock's seconds."""
        self.observe_attempts(record)
        first = record.first_content_at
        if not record.stream or record.error or first is None or not record.attempts:
            return
        entry = record.attempts[served_attempt(record.attempts)]
        place = _place(entry), record.task
        self._of(FIRST_TOKEN, place).observe(first - record.started)
        tokens = None if record.usage is None else record.usage.completion_tokens
        if tokens is not None and tokens > 1:
            self._of(PER_TOKEN, place).observe((ended - first) / (tokens - 1))

    def observe_attempts(self, record: RequestRecord) -> None:
        """Count the attempts of a request or of a mirrored copy."""
        served = served_attempt(record.attempts)
        for number, entry in enumerate(record.attempts):
            if not entry.refused:
                self._attempt(entry, record.task, record.usage if number == served else entry.usage)

    def _attempt(self, entry: AttemptRecord, task: str, usage: Usage | None) -> None:
        place = _place(entry)
        failed = "" if entry.outcome in FINE else entry.outcome or "unfinished"
        self._of(DURATION, (place, task, failed)).observe(entry.ms / 1e3)
        if usage is not None:
            if usage.prompt_tokens is not None:
                self._of(TOKENS, (place, task, "input")).observe(usage.prompt_tokens)
            if usage.completion_tokens is not None:
                self._of(TOKENS, (place, task, "output")).observe(usage.completion_tokens)

    def collect(self) -> tuple[list[bytes], int]:
        """Return the metrics, each as field 2 of ScopeMetrics, and the number of their points."""
        now = time.time_ns()
        found: list[bytes] = []
        for spec, series in self._series.items():
            if series:
                points = [one.data_point(self._started, now) for one in series.values()]
                found.append(histogram_metric(spec.name, spec.description, spec.unit, points))
        return found, sum(map(len, self._series.values()))

    def _of(self, spec: MetricSpec, key: _Key) -> CumulativeHistogram:
        series = self._series[spec]
        found = series.get(key)
        if found is None:
            found = series[key] = CumulativeHistogram(spec.bounds, self._attributes(spec, key))
        return found

    def _attributes(self, spec: MetricSpec, key: _Key) -> dict[str, Value]:
        place, task, *more = key
        provider, _, model = place.partition("/")
        adapter = self._adapter_of(provider) or provider
        found: dict[str, Value] = {
            names.OPERATION: names.OPERATIONS.get(task, task),
            names.PROVIDER: names.PROVIDERS.get(adapter, adapter),
            names.REQUEST_MODEL: model,
        }
        if more and more[0]:
            found[names.TOKEN_TYPE if spec is TOKENS else names.ERROR_TYPE] = more[0]
        return found


def _place(entry: AttemptRecord) -> str:
    return entry.pattern or entry.backend


def observe_all(
    metrics: GenAiMetrics, finished: Iterable[tuple[RequestRecord, int, float, object]]
) -> None:
    """Count ended requests; their end by the clock is third."""
    for record, _, ended, _ in finished:
        metrics.observe(record, ended)
