"""W3C Trace Context: the trace that a request belongs to, and the ids of its spans."""

import random
import re
from collections.abc import Iterable
from typing import Final, Protocol

from msgspec import Struct, field

_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?")
_MEMBER = (
    rb"[ \t]*[a-z0-9][a-z0-9_*/@-]{0,255}="
    rb"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e][ \t]*|[ \t]*"
)
_STATE = re.compile(rb"(?:%b)(?:,(?:%b))*+" % (_MEMBER, _MEMBER))
MAX_STATE_BYTES: Final = 512
"""https://www.w3.org/TR/trace-context/#tracestate-limits"""
_INVALID_VERSION, _SAMPLED = b"ff", 0x01
MAX_STATE_MEMBERS: Final = 32
MAX_BAGGAGE_BYTES: Final = 8192
"""https://www.w3.org/TR/baggage/#limits"""

_random = random.Random(random.SystemRandom().getrandbits(128))

Headers = Iterable[tuple[bytes, bytes]]


def new_span_id() -> str:
    """Return 16 hexadecimal digits, not all zero."""
    return f"{_random.getrandbits(64) or 1:016x}"


class SpanSink(Protocol):
    """Exports the spans of the requests that began under one configuration."""

    @property
    def is_full(self) -> bool:
        """Whether spans would be dropped. Then they need not be built."""
        ...

    def drop(self, count: int) -> None:
        """Count spans that are dropped."""
        ...

    def add(self, items: Iterable[bytes]) -> None:
        """Export encoded spans, later."""
        ...


class FetchSpan(Struct, frozen=True, gc=False):
    """An image that was fetched. Times are the clock's seconds. error: a code, or ""."""

    span_id: str
    started: float
    ended: float
    error: str


class AttemptTrace(Struct, gc=False):
    """The span of one attempt. started: the clock's seconds.

    headers: what its backend receives.
    """

    span_id: str
    started: float
    headers: tuple[tuple[str, str], ...]
    fetches: list[FetchSpan] = field(default_factory=list[FetchSpan])

    def fetched(self, started: float, ended: float, error: str) -> None:
        """An image of the attempt was fetched, or could not be."""
        self.fetches.append(FetchSpan(new_span_id(), started, ended, error))


class RequestTrace(Struct, kw_only=True, gc=False):
    """The trace of one request. Ids are in hexadecimal.

    parent_id: the caller's span, "" if the trace begins here. state: the caller's `tracestate`.
    baggage:   the caller's, as sent; exported with the request, never sent to backends.
    route, path: as declared, and as requested. attempts: in the order of the request's record.
    sink:      of a sampled trace; `None` exports nothing. A request keeps the one that it began
               with, so that a reload loses no spans.
    """

    trace_id: str
    span_id: str
    parent_id: str = ""
    sampled: bool
    state: str = ""
    baggage: bytes = b""
    route: str = ""
    path: str = ""
    scheme: str = "http"
    sink: SpanSink | None = None
    attempts: list[AttemptTrace] = field(default_factory=list[AttemptTrace])

    def start_attempt(self, at: float) -> AttemptTrace:
        """Start the span of the next attempt. at: the clock's seconds."""
        span_id = new_span_id()
        parent = f"00-{self.trace_id}-{span_id}-0{'1' if self.sampled else '0'}"
        headers = (("traceparent", parent),)
        if self.state:
            headers = (("traceparent", parent), ("tracestate", self.state))
        attempt = AttemptTrace(span_id, at, headers)
        self.attempts.append(attempt)
        return attempt

    def of_mirror(self) -> "RequestTrace":
        """Return the trace of the request's copy, whose attempts are children of the request."""
        return RequestTrace(
            trace_id=self.trace_id,
            span_id=self.span_id,
            sampled=self.sampled,
            state=self.state,
            sink=self.sink,
        )


def join_trace(headers: Headers, parent: bytes | None, threshold: int) -> RequestTrace:
    """Join the caller's trace, or begin one.

    headers: of the request, names in lower case. parent: its `traceparent`.
    threshold: a trace that begins here is sampled if the last 56 bits of its id are lower.
    The caller's decision whether to sample holds for its traces.
    https://www.w3.org/TR/trace-context/#processing-model-for-working-with-trace-context
    """
    found = None if parent is None else _PARENT.fullmatch(parent.strip())
    if found is None or not _is_valid(found) or _is_repeated(headers):
        trace_id = f"{_random.getrandbits(128) or 1:032x}"
        sampled = int(trace_id[18:], 16) < threshold
        return RequestTrace(trace_id=trace_id, span_id=new_span_id(), sampled=sampled)
    state = b",".join([value for name, value in headers if name == b"tracestate"])
    if state and not _is_valid_state(state):
        state = b""
    sampled = bool(int(found[4], 16) & _SAMPLED)
    return RequestTrace(
        trace_id=found[2].decode(),
        span_id=new_span_id(),
        parent_id=found[3].decode(),
        sampled=sampled,
        state=state.decode(),
    )


def baggage_of(headers: Headers) -> bytes:
    """Return the caller's `baggage`, b"" without one or if it is too long."""
    sent = b",".join([value for name, value in headers if name == b"baggage"])
    return sent if len(sent) <= MAX_BAGGAGE_BYTES else b""


def _is_valid(found: re.Match[bytes]) -> bool:
    version, trace_id, span_id, _, rest = found.groups()
    if version == _INVALID_VERSION or (version == b"00" and rest is not None):
        return False
    return trace_id.strip(b"0") != b"" and span_id.strip(b"0") != b""


def _is_repeated(headers: Headers) -> bool:
    return sum(name == b"traceparent" for name, _ in headers) > 1


def _is_valid_state(state: bytes) -> bool:
    """https://www.w3.org/TR/trace-context/#tracestate-header-field-values"""
    short = len(state) <= MAX_STATE_BYTES and state.count(b",") < MAX_STATE_MEMBERS
    return short and _STATE.fullmatch(state) is not None
