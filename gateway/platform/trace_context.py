"""W3C Trace Context: the trace that a request belongs to, and the ids of its spans."""

import random
import re
from binascii import hexlify
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from struct import Struct as Layout
from typing import Final, Protocol

from msgspec import Struct

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

DECIDING_BITS: Final = 56
"""Of the trace id, which are random. https://www.w3.org/TR/trace-context-2/#random-trace-id-flag"""
_DECIDING: Final = slice(-DECIDING_BITS // 4, None)
_IDS: Final = Layout("32s16s")
"""The hexadecimal digits of a trace and of its first attempt."""
_NOT_ZERO: Final = 8 << 4 * 47 | 8 << 4 * 15
"""A bit of each: ids must not be all zero."""
_SAMPLED_IDS: Final = Layout("32s16s16s")
"""Those of a trace, of its first attempt and of the request."""
_SAMPLED_NOT_ZERO: Final = _NOT_ZERO << 4 * 16 | 8 << 4 * 15
_AT_ONCE: Final = 64
_PARENT_AT: Final = slice(len("traceparent: "), len("traceparent: ") + 55)
_UNSAMPLED_LINE: Final = b"traceparent: 00-%b-%b-00\r\n"
_SAMPLED_LINE: Final = b"traceparent: 00-%b-%b-01\r\n"

_draw = random.Random(random.SystemRandom().getrandbits(128)).getrandbits
"""Draws so many bits."""

Headers = Iterable[tuple[bytes, bytes]]


def new_span_id() -> bytes:
    """Return the 16 hexadecimal digits of 64 bits, not all zero."""
    return b"%x" % (_draw(64) | 1 << 63)


class SpanSink(Protocol):
    """Exports the spans of the requests that began under one configuration."""

    @property
    def is_full(self) -> bool:
        """Whether spans would be dropped. Then they need not be built."""
        ...

    def drop(self, count: int) -> None:
        """Count spans that are dropped."""
        ...

    def add(self, items: Sequence[bytes]) -> None:
        """Export encoded spans, later."""
        ...


class FetchSpan(Struct, frozen=True, gc=False):
    """An image that was fetched. Times are the clock's seconds. error: a code, or ""."""

    span_id: bytes
    started: float
    ended: float
    error: str


class EngineSpan(Struct, frozen=True, gc=False):
    """The phases of the local engine's answer in seconds. ended: the clock's seconds."""

    queue_s: float
    prefill_s: float
    decode_s: float
    ended: float


class AttemptTrace(Struct, gc=False):
    """The trace of one attempt. lines: the headers that its backend receives, each with CRLF.

    Of an attempt that is exported also the span: span_id, not b""; started, the clock's seconds;
    the images that were fetched for it; and the local engine's phases.
    """

    lines: bytes
    span_id: bytes = b""
    started: float = 0.0
    fetches: list[FetchSpan] | None = None
    engine: EngineSpan | None = None

    @property
    def exported_parent(self) -> str:
        """The `traceparent` of an attempt that is exported; "" of any other."""
        return self.lines[_PARENT_AT].decode() if self.span_id else ""

    def fetched(self, started: float, ended: float, error: str) -> None:
        """An image of the attempt was fetched, or could not be."""
        if self.span_id:
            self.fetches = self.fetches or []
            self.fetches.append(FetchSpan(new_span_id(), started, ended, error))


class SampledRequest(Struct, kw_only=True, gc=False):
    """What is kept of a request whose spans are exported.

    parent_id: the caller's span, b"" if the trace begins here. state: the caller's `tracestate`.
    baggage:   the caller's, as sent; exported with the request, never sent to backends.
    route, path: as declared, and as requested. attempts: in the order of the request's record.
    sink:      a request keeps the one that it began with, so that a reload loses no spans.
    """

    span_id: bytes
    parent_id: bytes = b""
    state: str = ""
    baggage: bytes = b""
    route: str = ""
    path: str = ""
    scheme: str = "http"
    sink: SpanSink | None = None
    attempts: list[AttemptTrace]


class RequestTrace(Struct, gc=False):
    """The trace of one request. lines: the header `tracestate` with CRLF, if the caller sent one.

    sampled: `None` if the request is not exported. It takes part in its trace all the same.
    drawn: its first attempt, of a trace that begins here; `None` once it has started.
    """

    trace_id: bytes
    lines: bytes = b""
    sampled: SampledRequest | None = None
    drawn: AttemptTrace | None = None

    def start_attempt(self, at: float) -> AttemptTrace:
        """Start the span of the next attempt. at: the clock's seconds."""
        attempt, sampled = self.drawn, self.sampled
        if attempt is not None:
            self.drawn = None
        elif sampled is None:
            line = _UNSAMPLED_LINE % (self.trace_id, new_span_id())
            attempt = AttemptTrace(line + self.lines)
        else:
            span_id = new_span_id()
            line = _SAMPLED_LINE % (self.trace_id, span_id)
            attempt = AttemptTrace(line + self.lines, span_id)
        if sampled is not None:
            attempt.started = at
            sampled.attempts.append(attempt)
        return attempt

    def of_mirror(self) -> "RequestTrace":
        """Return the trace of the request's copy, whose attempts are children of the request."""
        sampled = self.sampled
        if sampled is None:
            return RequestTrace(self.trace_id, self.lines)
        own = SampledRequest(
            span_id=sampled.span_id, state=sampled.state, sink=sampled.sink, attempts=[]
        )
        return RequestTrace(self.trace_id, self.lines, own)


def begin_traces(threshold: int, count: int = _AT_ONCE) -> list[RequestTrace]:
    """Begin traces, each with its first attempt: many at once, which takes half the time.

    threshold: a trace is sampled if the last 56 bits of its id are lower.
    """
    if not threshold:
        return [
            RequestTrace(trace_id, b"", None, AttemptTrace(_UNSAMPLED_LINE % (trace_id, span_id)))
            for trace_id, span_id in _drawn(_IDS, _NOT_ZERO, count)
        ]
    every = threshold >> DECIDING_BITS
    traces: list[RequestTrace] = []
    for trace_id, span_id, own_id in _drawn(_SAMPLED_IDS, _SAMPLED_NOT_ZERO, count):
        if every or int(trace_id[_DECIDING], 16) < threshold:
            drawn = AttemptTrace(_SAMPLED_LINE % (trace_id, span_id), span_id)
            sampled = SampledRequest(span_id=own_id, attempts=[])
            traces.append(RequestTrace(trace_id, b"", sampled, drawn))
        else:
            drawn = AttemptTrace(_UNSAMPLED_LINE % (trace_id, span_id))
            traces.append(RequestTrace(trace_id, b"", None, drawn))
    return traces


def _drawn(layout: Layout, not_zero: int, count: int) -> Iterator[tuple[bytes, ...]]:
    """Draw the digits of so many traces."""
    bits = _draw(4 * layout.size * count) | _repeated(not_zero, layout.size, count)
    # Twice as fast as formatting the number.
    return layout.iter_unpack(hexlify(bits.to_bytes(layout.size * count // 2, "big")))


@lru_cache(maxsize=4)
def _repeated(not_zero: int, size: int, count: int) -> int:
    """Return the bits of one trace for so many. size: digits of a trace."""
    return sum(not_zero << 4 * size * place for place in range(count))


def join_trace(headers: Headers, parent: bytes, threshold: int) -> RequestTrace:
    """Join the caller's trace, or begin one if its `traceparent` is invalid.

    headers: of the request, names in lower case. parent: its `traceparent`.
    threshold: as in `begin_traces`. The caller's decision whether to sample holds for its traces.
    https://www.w3.org/TR/trace-context/#processing-model-for-working-with-trace-context
    """
    found = _PARENT.fullmatch(parent.strip())
    names = [name for name, _ in headers]
    if found is None or not _is_valid(found) or names.count(b"traceparent") > 1:
        return begin_traces(threshold, 1)[0]
    state = b""
    if b"tracestate" in names:
        sent = b",".join([value for name, value in headers if name == b"tracestate"])
        state = sent if _is_valid_state(sent) else b""
    trace = RequestTrace(found[2], b"tracestate: %b\r\n" % state if state else b"")
    if int(found[4], 16) & _SAMPLED:
        trace.sampled = SampledRequest(
            span_id=new_span_id(),
            parent_id=found[3],
            state=state.decode(),
            attempts=[],
        )
    return trace


def baggage_of(headers: Headers) -> bytes:
    """Return the caller's `baggage`, b"" without one or if it is too long."""
    sent = b",".join([value for name, value in headers if name == b"baggage"])
    return sent if len(sent) <= MAX_BAGGAGE_BYTES else b""


def _is_valid(found: re.Match[bytes]) -> bool:
    version, trace_id, span_id, _, rest = found.groups()
    if version == _INVALID_VERSION or (version == b"00" and rest is not None):
        return False
    return trace_id.strip(b"0") != b"" and span_id.strip(b"0") != b""


def _is_valid_state(state: bytes) -> bool:
    """https://www.w3.org/TR/trace-context/#tracestate-header-field-values"""
    short = len(state) <= MAX_STATE_BYTES and state.count(b",") < MAX_STATE_MEMBERS
    return short and _STATE.fullmatch(state) is not None
