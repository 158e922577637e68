"""Build the spans of an ended request from its record."""

from collections.abc import Callable, Iterator
from urllib.parse import unquote

from gateway.routing.request_record import AttemptRecord, RequestRecord
from gateway.telemetry.access_log import AccessLine
from gateway.trace_context import AttemptTrace, RequestTrace
from gateway.tracing import conventions as names
from gateway.tracing.span_message import CLIENT, SERVER, attribute, known_attribute, span
from schemas.events import Usage

MAX_BAGGAGE = 16
"""Entries of the caller's baggage that become attributes."""

_FINE = ("ok", "lost", "cancelled")


def request_spans(
    record: RequestRecord,
    line: AccessLine,
    trace: RequestTrace,
    offset: float,
    ended: float,
    adapter_of: Callable[[str], str],
) -> Iterator[bytes]:
    """Yield the span of a request and those of its attempts.

    offset: Unix time minus the clock, seconds. ended: the clock's seconds.
    adapter_of: the adapter of a provider by its name, "" if it is unknown.
    """
    found = [
        known_attribute(names.HTTP_METHOD, "POST"),
        known_attribute(names.HTTP_ROUTE, trace.route),
        known_attribute(names.HTTP_STATUS, line.status),
        known_attribute(names.URL_SCHEME, trace.scheme),
        attribute(names.URL_PATH, trace.path),
        attribute("strowger.request_id", record.request_id),
    ]
    for key, value in (
        ("strowger.model", line.route),
        ("strowger.key", line.key),
        ("strowger.team", line.team),
        ("strowger.experiment", line.experiment),
        ("strowger.variant", line.variant),
        (names.ERROR_TYPE, line.error),
    ):
        if value:
            found.append(known_attribute(key, value))
    if trace.baggage:
        found += _baggage(trace.baggage)
    trace_id = bytes.fromhex(trace.trace_id)
    yield span(
        trace_id,
        bytes.fromhex(trace.span_id),
        bytes.fromhex(trace.parent_id),
        b"POST " + trace.route.encode(),
        SERVER,
        record.started + offset,
        ended + offset,
        found,
        state=trace.state,
        failed=line.status >= 500 or bool(line.error and line.status < 400),
    )
    yield from attempt_spans(record, trace, offset, adapter_of, record.task)


def count_spans(trace: RequestTrace) -> int:
    """Return how many spans `request_spans` would yield."""
    return 1 + sum(1 + len(one.fetches) for one in trace.attempts)


def attempt_spans(
    record: RequestRecord,
    trace: RequestTrace,
    offset: float,
    adapter_of: Callable[[str], str],
    task: str,
) -> Iterator[bytes]:
    """Yield the spans of a request's attempts, and of the images fetched for them."""
    served = _served(record.attempts)
    for place, (entry, own) in enumerate(zip(record.attempts, trace.attempts, strict=False)):
        usage = record.usage if place == served else entry.usage
        yield _attempt_span(record, entry, own, trace, offset, adapter_of, task, usage)
        for fetch in own.fetches:
            failed = (known_attribute(names.ERROR_TYPE, fetch.error),) if fetch.error else ()
            yield span(
                bytes.fromhex(trace.trace_id),
                bytes.fromhex(fetch.span_id),
                bytes.fromhex(own.span_id),
                b"fetch image",
                CLIENT,
                fetch.started + offset,
                fetch.ended + offset,
                failed,
                state=trace.state,
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
    offset: float,
    adapter_of: Callable[[str], str],
    task: str,
    usage: Usage | None,
) -> bytes:
    provider, _, model = entry.backend.partition("/")
    adapter = adapter_of(provider) or provider
    operation = names.OPERATIONS.get(task, task)
    found = [
        known_attribute(names.OPERATION, operation),
        known_attribute(names.PROVIDER, names.PROVIDERS.get(adapter, adapter)),
        known_attribute(names.REQUEST_MODEL, model),
        known_attribute("strowger.backend", entry.backend),
        known_attribute("strowger.attempt.role", entry.recorded_role),
        known_attribute("strowger.attempt.outcome", entry.outcome),
    ]
    if entry.hedge:
        found.append(known_attribute("strowger.attempt.hedge", True))
    failed = entry.outcome not in _FINE
    if failed:
        found.append(known_attribute(names.ERROR_TYPE, entry.outcome or "unfinished"))
    if record.stream:
        found.append(known_attribute(names.STREAM, True))
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
        bytes.fromhex(trace.trace_id),
        bytes.fromhex(own.span_id),
        bytes.fromhex(trace.span_id),
        f"{operation} {model}".encode("utf-8", "replace"),
        CLIENT,
        started,
        started + entry.ms / 1e3,
        found,
        state=trace.state,
        failed=failed,
    )


def _baggage(sent: bytes) -> Iterator[bytes]:
    """Yield attributes `baggage.KEY`: the prefix keeps callers from setting any other attribute.

    https://www.w3.org/TR/baggage/#baggage-http-header-format
    """
    for member in sent.decode("latin-1").split(",")[:MAX_BAGGAGE]:
        key, equals, value = member.partition(";")[0].partition("=")
        if equals and key.strip():
            yield attribute(f"baggage.{key.strip()[:128]}", unquote(value.strip())[:256])
