"""Build the spans of an ended request from its record."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from urllib.parse import unquote

from gateway.otlp.protobuf import Value
from gateway.routing.request_record import AttemptRecord, RequestRecord
from gateway.telemetry.access_log import AccessLine
from gateway.trace_context import AttemptTrace, RequestTrace, SampledRequest
from gateway.tracing import conventions as names
from gateway.tracing.span_message import CLIENT, SERVER, attribute, attributes, span
from schemas.events import Usage

MAX_BAGGAGE = 16
"""Entries of the caller's baggage that become attributes."""

_FINE = ("ok", "lost", "cancelled")
_FETCH = b"fetch image"

AdapterOf = Callable[[str], str]
"""The adapter of a provider by its name, "" if it is unknown."""


def request_spans(
    record: RequestRecord,
    line: AccessLine,
    trace: RequestTrace,
    sampled: SampledRequest,
    offset: float,
    ended: float,
    adapter_of: AdapterOf,
) -> Iterator[bytes]:
    """Yield the span of a request and those of its attempts.

    offset: Unix time minus the clock, seconds. ended: the clock's seconds.
    """
    name, shared = _shared_of_request(
        sampled.route,
        sampled.scheme,
        line.status,
        line.route,
        line.key,
        line.team,
        line.experiment,
        line.variant,
        line.error,
    )
    found = [
        shared,
        attribute(names.URL_PATH, sampled.path),
        attribute("strowger.request_id", record.request_id),
    ]
    if sampled.baggage:
        found += _baggage(sampled.baggage)
    yield span(
        trace.trace_id,
        sampled.span_id,
        sampled.parent_id,
        name,
        SERVER,
        record.started + offset,
        ended + offset,
        found,
        state=sampled.state,
        failed=line.status >= 500 or bool(line.error and line.status < 400),
    )
    yield from attempt_spans(record, trace, sampled, offset, adapter_of)


def count_spans(sampled: SampledRequest) -> int:
    """Return how many spans `request_spans` would yield."""
    return 1 + sum(1 + len(one.fetches or ()) for one in sampled.attempts)


def attempt_spans(
    record: RequestRecord,
    trace: RequestTrace,
    sampled: SampledRequest,
    offset: float,
    adapter_of: AdapterOf,
) -> Iterator[bytes]:
    """Yield the spans of a request's attempts, and of the images fetched for them."""
    served = _served(record.attempts)
    for place, (entry, own) in enumerate(zip(record.attempts, sampled.attempts, strict=False)):
        usage = record.usage if place == served else entry.usage
        yield _attempt_span(record, entry, own, trace, sampled, offset, adapter_of, usage)
        for fetch in own.fetches or ():
            yield span(
                trace.trace_id,
                fetch.span_id,
                own.span_id,
                _FETCH,
                CLIENT,
                fetch.started + offset,
                fetch.ended + offset,
                (attribute(names.ERROR_TYPE, fetch.error),) if fetch.error else (),
                state=sampled.state,
                failed=bool(fetch.error),
            )


def _served(attempts: list[AttemptRecord]) -> int:
    """Return the index of the attempt that the record's own usage is of; −1: none."""
    for place in range(len(attempts) - 1, -1, -1):
        if attempts[place].role != "hedge" and not attempts[place].refused:
            return place
    return -1


def _attempt_span(
    record: RequestRecord,
    entry: AttemptRecord,
    own: AttemptTrace,
    trace: RequestTrace,
    sampled: SampledRequest,
    offset: float,
    adapter_of: AdapterOf,
    usage: Usage | None,
) -> bytes:
    provider = entry.backend.partition("/")[0]
    name, shared = _shared_of_attempt(
        entry.backend,
        adapter_of(provider) or provider,
        record.task,
        record.stream,
        entry.recorded_role,
        entry.outcome,
        entry.hedge,
    )
    found = [shared]
    if record.stream:
        first = record.first_content_at
        if first is not None and first >= own.started and entry.outcome == "ok":
            found.append(attribute(names.FIRST_CHUNK_S, first - own.started))
    if usage is not None:
        for key, tokens in (
            (names.INPUT_TOKENS, usage.prompt_tokens),
            (names.OUTPUT_TOKENS, usage.completion_tokens),
            (names.CACHED_TOKENS, usage.cached_tokens),
            (names.REASONING_TOKENS, usage.reasoning_tokens),
        ):
            if tokens is not None:
                found.append(attribute(key, tokens))
    started = own.started + offset
    return span(
        trace.trace_id,
        own.span_id,
        sampled.span_id,
        name,
        CLIENT,
        started,
        started + entry.ms / 1e3,
        found,
        state=sampled.state,
        failed=entry.outcome not in _FINE,
    )


@lru_cache(maxsize=1024)
def _shared_of_request(
    route: str,
    scheme: str,
    status: int,
    model: str,
    key: str,
    team: str,
    experiment: str,
    variant: str,
    error: str,
) -> tuple[bytes, bytes]:
    """Return the name and the attributes that many requests have alike."""
    found: list[tuple[str, Value]] = [
        (names.HTTP_METHOD, "POST"),
        (names.HTTP_ROUTE, route),
        (names.HTTP_STATUS, status),
        (names.URL_SCHEME, scheme),
    ]
    for name, value in (
        ("strowger.model", model),
        ("strowger.key", key),
        ("strowger.team", team),
        ("strowger.experiment", experiment),
        ("strowger.variant", variant),
        (names.ERROR_TYPE, error),
    ):
        if value:
            found.append((name, value))
    return b"POST " + route.encode(), attributes(found)


@lru_cache(maxsize=1024)
def _shared_of_attempt(
    backend: str, adapter: str, task: str, stream: bool, role: str, outcome: str, hedge: bool
) -> tuple[bytes, bytes]:
    """Return the name and the attributes that many attempts have alike."""
    model = backend.partition("/")[2]
    operation = names.OPERATIONS.get(task, task)
    found: list[tuple[str, Value]] = [
        (names.OPERATION, operation),
        (names.PROVIDER, names.PROVIDERS.get(adapter, adapter)),
        (names.REQUEST_MODEL, model),
        ("strowger.backend", backend),
        ("strowger.attempt.role", role),
        ("strowger.attempt.outcome", outcome),
    ]
    if hedge:
        found.append(("strowger.attempt.hedge", True))
    if outcome not in _FINE:
        found.append((names.ERROR_TYPE, outcome or "unfinished"))
    if stream:
        found.append((names.STREAM, True))
    return f"{operation} {model}".encode("utf-8", "replace"), attributes(found)


def _baggage(sent: bytes) -> Iterator[bytes]:
    """Yield attributes `baggage.KEY`: the prefix keeps callers from setting any other attribute.

    https://www.w3.org/TR/baggage/#baggage-http-header-format
    """
    for member in sent.decode("latin-1").split(",")[:MAX_BAGGAGE]:
        key, equals, value = member.partition(";")[0].partition("=")
        if equals and key.strip():
            yield attribute(f"baggage.{key.strip()[:128]}", unquote(value.strip())[:256])
