"""Build the spans of an ended request from its record."""

from binascii import unhexlify
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from strowger_gateway.gateway.observability.otlp.protobuf import MAX_CHARS, Value, key_value, part
from strowger_gateway.gateway.observability.telemetry.access_log import AccessLine
from strowger_gateway.gateway.observability.tracing import conventions as names
from strowger_gateway.gateway.observability.tracing.span_message import (
    CLIENT,
    END,
    SERVER,
    START,
    CountAttribute,
    attribute,
    attributes,
    constant_fields,
    event,
    span,
    span_template,
    span_times,
    text_attribute,
    text_head,
    trace_state,
)
from strowger_gateway.gateway.platform.trace_context import (
    AttemptTrace,
    EngineSpan,
    RequestTrace,
    SampledRequest,
)
from strowger_gateway.gateway.routing.request_record import AttemptRecord, RequestRecord
from strowger_gateway.schemas.events import Usage

MAX_BAGGAGE = 16
"""Entries of the caller's baggage that become attributes."""

FINE = ("ok", "lost", "cancelled")
"""Outcomes of attempts that are not errors."""

_REQUEST_ID: Final = "strowger.request_id"
_INPUT = CountAttribute(names.INPUT_TOKENS)
_OUTPUT = CountAttribute(names.OUTPUT_TOKENS)
_CACHED = CountAttribute(names.CACHED_TOKENS)
_REASONING = CountAttribute(names.REASONING_TOKENS)

Adapters = Mapping[str, str]
"""The adapters of providers by their names."""


def request_spans(
    record: RequestRecord,
    line: AccessLine,
    trace: RequestTrace,
    sampled: SampledRequest,
    offset: float,
    ended: float,
    adapters: Adapters,
) -> Sequence[bytes]:
    """Return the span of a request and those of its attempts.

    offset: Unix time minus the clock, seconds. ended: the clock's seconds.

    Nearly all requests have one attempt and nothing unusual. Their spans are put together from
    templates that contain what many requests have alike and all lengths, in half the time.
    """
    if sampled.state or sampled.baggage or len(sampled.attempts) != 1 or len(record.attempts) != 1:
        return _any_spans(record, line, trace, sampled, offset, ended, adapters)
    own, entry = sampled.attempts[0], record.attempts[0]
    if own.engine is not None or own.fetches is not None or entry.role or entry.refused:
        return _any_spans(record, line, trace, sampled, offset, ended, adapters)
    backend, path, parent_id = entry.backend, sampled.path, sampled.parent_id
    provider = backend.partition("/")[0]
    request_id = record.request_id.encode()
    more = b"".join(_attempt_attributes(record, entry, own, record.usage))
    of_request, of_attempt = _templates(
        sampled.route,
        "" if path == sampled.route else path[:MAX_CHARS],
        sampled.scheme,
        line.status,
        line.route,
        line.key,
        line.team,
        line.experiment,
        line.variant,
        line.error,
        line.cache,
        parent_id != b"",
        len(request_id),
        backend,
        adapters.get(provider) or provider,
        record.task,
        record.stream,
        entry.outcome,
        entry.hedge,
        len(more),
    )
    trace_id, span_id = unhexlify(trace.trace_id), unhexlify(sampled.span_id)
    ids = (trace_id, span_id, unhexlify(parent_id)) if parent_id else (trace_id, span_id)
    at, until = (record.started + offset) * 1e9, (ended + offset) * 1e9
    times = span_times(START, int(at), END, int(until))
    own_id, at = unhexlify(own.span_id), own.started + offset
    own_times = span_times(START, int(at * 1e9), END, int((at + entry.ms / 1e3) * 1e9))
    return (
        of_request % (*ids, times, request_id),
        of_attempt % (trace_id, own_id, span_id, own_times, more),
    )


def _any_spans(
    record: RequestRecord,
    line: AccessLine,
    trace: RequestTrace,
    sampled: SampledRequest,
    offset: float,
    ended: float,
    adapters: Adapters,
) -> list[bytes]:
    """The same for any request."""
    path = sampled.path
    constant = _constant_of_request(
        sampled.route,
        "" if path == sampled.route else path[:MAX_CHARS],
        sampled.scheme,
        line.status,
        line.route,
        line.key,
        line.team,
        line.experiment,
        line.variant,
        line.error,
        sampled.parent_id != b"",
    )
    more = [text_attribute("strowger.cache", line.cache)] if line.cache else []
    more.append(text_attribute(_REQUEST_ID, record.request_id))
    if sampled.state:
        more.append(trace_state(sampled.state))
    if sampled.baggage:
        more += _baggage(sampled.baggage)
    trace_id = unhexlify(trace.trace_id)
    started, ended = record.started + offset, ended + offset
    return [
        span(trace_id, sampled.span_id, sampled.parent_id, started, ended, constant, more),
        *attempt_spans(record, trace, sampled, offset, adapters),
    ]


@lru_cache(maxsize=1024)
def _templates(
    route: str,
    path: str,
    scheme: str,
    status: int,
    model: str,
    key: str,
    team: str,
    experiment: str,
    variant: str,
    error: str,
    cache: str,
    remote: bool,
    id_size: int,
    backend: str,
    adapter: str,
    task: str,
    stream: bool,
    outcome: str,
    hedge: bool,
    more: int,
) -> tuple[bytes, bytes]:
    """Return the templates of a request's span and of its attempt's. id_size, more: bytes."""
    of_request = _constant_of_request(
        *(route, path, scheme, status, model, key, team, experiment, variant, error, remote)
    )
    if cache:
        of_request += text_attribute("strowger.cache", cache)
    of_request += text_head(_REQUEST_ID, id_size)
    role = AttemptRecord(backend=backend, outcome=outcome).recorded_role
    of_attempt = _constant_of_attempt(backend, adapter, task, stream, role, outcome, hedge)
    return (
        span_template(of_request, id_size, child=remote),
        span_template(of_attempt, more, child=True),
    )


def count_spans(sampled: SampledRequest) -> int:
    """Return how many spans `request_spans` would yield."""
    return 1 + sum(1 + len(one.fetches or ()) for one in sampled.attempts)


def attempt_spans(
    record: RequestRecord,
    trace: RequestTrace,
    sampled: SampledRequest,
    offset: float,
    adapters: Adapters,
) -> list[bytes]:
    """Return the spans of a request's attempts, and of the images fetched for them."""
    found: list[bytes] = []
    served = served_attempt(record.attempts)
    trace_id, state = unhexlify(trace.trace_id), trace_state(sampled.state)
    for place, (entry, own) in enumerate(zip(record.attempts, sampled.attempts, strict=False)):
        usage = record.usage if place == served else entry.usage
        more = _attempt_attributes(record, entry, own, usage)
        if state:
            more.append(state)
        if own.engine is not None:
            more += _engine_events(own.engine, offset)
        provider = entry.backend.partition("/")[0]
        constant = _constant_of_attempt(
            entry.backend,
            adapters.get(provider) or provider,
            record.task,
            record.stream,
            entry.recorded_role,
            entry.outcome,
            entry.hedge,
        )
        at, until = own.started + offset, own.started + offset + entry.ms / 1e3
        found.append(span(trace_id, own.span_id, sampled.span_id, at, until, constant, more))
        for fetch in own.fetches or ():
            at, until = fetch.started + offset, fetch.ended + offset
            constant = _constant_of_fetch(fetch.error)
            found.append(span(trace_id, fetch.span_id, own.span_id, at, until, constant, (state,)))
    return found


def served_attempt(attempts: list[AttemptRecord]) -> int:
    """Return the index of the attempt that the record's own usage is of; −1: none."""
    if len(attempts) == 1 and not attempts[0].role:
        return -1 if attempts[0].refused else 0
    for place in range(len(attempts) - 1, -1, -1):
        if attempts[place].role != "hedge" and not attempts[place].refused:
            return place
    return -1


def _engine_events(engine: EngineSpan, offset: float) -> Iterator[bytes]:
    """Yield an event at the beginning of each phase, counted back from the answer's end."""
    at = engine.ended + offset - engine.queue_s - engine.prefill_s - engine.decode_s
    for name, seconds in (
        (b"engine.queue", engine.queue_s),
        (b"engine.prefill", engine.prefill_s),
        (b"engine.decode", engine.decode_s),
    ):
        yield event(name, at, (part(3, key_value("strowger.engine.duration_s", seconds)),))
        at += seconds


def _attempt_attributes(
    record: RequestRecord, entry: AttemptRecord, own: AttemptTrace, usage: Usage | None
) -> list[bytes]:
    """Encode the attributes that differ between attempts of the same kind."""
    found: list[bytes] = []
    if record.stream:
        first = record.first_content_at
        if first is not None and first >= own.started and entry.outcome == "ok":
            found.append(attribute(names.FIRST_CHUNK_S, first - own.started))
    if usage is not None:
        if (tokens := usage.prompt_tokens) is not None:
            found.append(_INPUT.of(tokens))
        if (tokens := usage.completion_tokens) is not None:
            found.append(_OUTPUT.of(tokens))
        if (tokens := usage.cached_tokens) is not None:
            found.append(_CACHED.of(tokens))
        if (tokens := usage.reasoning_tokens) is not None:
            found.append(_REASONING.of(tokens))
    return found


@lru_cache(maxsize=1024)
def _constant_of_request(
    route: str,
    path: str,
    scheme: str,
    status: int,
    model: str,
    key: str,
    team: str,
    experiment: str,
    variant: str,
    error: str,
    remote: bool,
) -> bytes:
    """Encode what many requests have alike.

    path: "" if it is the route; of at most MAX_CHARS, because the cache keeps what clients choose.
    """
    found: list[tuple[str, Value]] = [
        (names.HTTP_METHOD, "POST"),
        (names.HTTP_ROUTE, route),
        (names.URL_PATH, path or route),
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
    failed = status >= 500 or bool(error and status < 400)
    encoded = attributes(found)
    return constant_fields(f"POST {route}", SERVER, encoded, failed=failed, remote=remote)


@lru_cache(maxsize=1024)
def _constant_of_attempt(
    backend: str, adapter: str, task: str, stream: bool, role: str, outcome: str, hedge: bool
) -> bytes:
    """Encode what many attempts have alike."""
    model = backend.partition("/")[2]
    operation = names.OPERATIONS.get(task, task)
    failed = outcome not in FINE
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
    if failed:
        found.append((names.ERROR_TYPE, outcome or "unfinished"))
    if stream:
        found.append((names.STREAM, True))
    return constant_fields(f"{operation} {model}", CLIENT, attributes(found), failed=failed)


@lru_cache(maxsize=64)
def _constant_of_fetch(error: str) -> bytes:
    found = attribute(names.ERROR_TYPE, error) if error else b""
    return constant_fields("fetch image", CLIENT, found, failed=bool(error))


def _baggage(sent: bytes) -> Iterator[bytes]:
    """Yield attributes `baggage.KEY`: the prefix keeps callers from setting any other attribute.

    https://www.w3.org/TR/baggage/#baggage-http-header-format
    """
    for member in sent.decode("latin-1").split(",")[:MAX_BAGGAGE]:
        key, equals, value = member.partition(";")[0].partition("=")
        if equals and key.strip():
            yield attribute(f"baggage.{key.strip()[:128]}", unquote(value.strip())[:256])
