"""One socket to a provider, and the exchange on it.

The protocol's callbacks store arriving data in the exchange's state and wake the one coroutine
that may wait for it; an exchange has no task and no timer of its own. An exchange in order, with
the states of `exchange_state.py`:

1. READY. The connection is idle in its pool, or the pool has just given it to a request
   (`pool.py`). Bytes that arrive now were not requested, so it closes.
2. SENT. `send` writes the request and waits for the head of the final answer. Heads with status
   1xx are skipped.
3. BODY. The head is complete. `read` returns what has arrived, or waits; `relay` gives the pieces
   to a step while the socket is read, so a stream wakes no coroutine. If more waits for its reader
   than BUFFER_BYTES, the socket is not read until the reader has taken it (`paced_reads.py`).
4. COMPLETE. The peer has sent everything, and some of it may be unread.
5. `release` ends the exchange in whatever state it is. A connection that can carry another one
   returns to the pool, READY again; any other closes, and its slot is free.

FAILED: the connection is closed, and the coroutine that waits, or a later `read`, raises the error:
a deadline that has passed (`by`), a cancelled request, an answer that HTTP/1.1 does not allow, a
head or trailer that is too long, or a lost connection. One loss is repaired: if a connection that
has served before is lost within STALE_S of sending, without one byte of an answer, the transport
sends the request again on a fresh one (`StaleConnection`).

What is true of the socket is in flags, because it can become true in any state: `_lost` (it is
closed), `_eof` (the peer sends no more), `_full` (reading is paused), and `_reusable` (false: it
closes after this exchange).
"""

import asyncio
from typing import Self, cast

import httptools
from httptools.parser.errors import HttpParserError, HttpParserUpgrade

from strowger_gateway.gateway.backends.upstream.transport import Step
from strowger_gateway.gateway.backends.upstream.wire import faults
from strowger_gateway.gateway.backends.upstream.wire.connection_owner import ConnectionOwner
from strowger_gateway.gateway.backends.upstream.wire.deadlines import Deadlines
from strowger_gateway.gateway.backends.upstream.wire.exchange_state import (
    ON_END,
    ON_FAILURE,
    ON_HEAD,
    ON_RELEASE,
    ON_SEND,
    ExchangeState,
)
from strowger_gateway.gateway.backends.upstream.wire.faults import StaleConnection
from strowger_gateway.gateway.backends.upstream.wire.http_message import (
    Limits,
    ReplyHeaders,
    head_of,
    whole_chunk,
)
from strowger_gateway.gateway.backends.upstream.wire.paced_reads import (
    BUFFER_BYTES,
    LONG,
    SLICE,
    PacedReads,
)
from strowger_gateway.gateway.platform.eventloop.inline_task import Waiter, waiter_of
from strowger_gateway.gateway.platform.eventloop.turn import current_turn
from strowger_gateway.schemas.errors import UpstreamBroken, UpstreamError, UpstreamSilent
from strowger_gateway.schemas.holdings import ANONYMOUS

STALE_S = 1.0

_NONE = ReplyHeaders(b"")

READY, SENT, BODY, COMPLETE, FAILED = ExchangeState  # globals: faster than members of an enum


class HttpConnection(PacedReads):
    """Carries one exchange at a time: `send`, then `read` until b"", then `release`."""

    __slots__ = (
        "_barren",
        "_between",
        "_chunks",
        "_deadlines",
        "_eof",
        "_error",
        "_head",
        "_head_only",
        "_informational",
        "_limits",
        "_most_barren",
        "_owner",
        "_parser",
        "_reusable",
        "_reused",
        "_sent_at",
        "_skipping",
        "_step",
        "_step_error",
        "_waiter",
        "buffered",
        "by",
        "clock",
        "headers",
        "holder",
        "idle",
        "state",
        "status",
        "upstream",
    )

    def __init__(
        self, upstream: str, owner: ConnectionOwner[Self], deadlines: Deadlines, limits: Limits
    ) -> None:
        self.upstream = upstream
        self.by, self.idle, self.holder = 0.0, False, ANONYMOUS
        self._owner, self._deadlines, self._limits = owner, deadlines, limits
        self._most_barren = limits.head_bytes
        super().__init__(current_turn())
        self.clock = self._turn.loop.time
        self._parser = httptools.HttpResponseParser(self)
        self._eof = False
        # The mutable state of an exchange; `send` resets it.
        self.status = 0  # until the head of the final answer is complete
        self.headers = _NONE
        self._head = b""  # raw bytes so far: the parser does not return them
        self._chunks: list[bytes] = []
        self.buffered = 0
        self._between = False  # the parser has read whole chunks, and nothing of the next one
        self._barren = 0  # bytes since the last body data; bounds heads and trailers
        self._sent_at = 0.0
        self._waiter: Waiter | None = None
        self._step: Step | None = None  # it takes the body's pieces in place of `_chunks`
        self._step_error: Exception | None = None
        self._error: UpstreamError | StaleConnection | None = None
        self.state = READY
        self._reusable, self._reused = True, False
        self._informational = 0  # 1xx heads, which precede the final one in `_head`
        self._skipping = self._head_only = False  # skipping: the parser is in a 1xx message

    @property
    def usable(self) -> bool:
        """Return whether another exchange may begin, as far as is known."""
        return self._reusable and not self._lost

    async def send(self, request: bytes, head_by: float, *, head_only: bool) -> None:
        """Begin an exchange and wait for the head of its answer: `status` and `headers`.

        Raises StaleConnection, after which the caller still has the connection's slot,
        UpstreamUnreachable, UpstreamTimeout or UpstreamBroken. head_only: its answer has no body.
        """
        now = self.clock()
        if head_by <= now or not self._reusable or self._lost:
            self.release()
            raise self._error or faults.unsent(self.upstream, late=head_by <= now)
        self.state = ON_SEND[self.state]
        self._head_only, self._sent_at = head_only, now
        self._turn.write(self._transport, request)
        waiter = self._waiter = waiter_of(self._turn)
        self.by = head_by
        self._deadlines.add(self)
        try:
            await waiter
        except asyncio.CancelledError:
            self.release()
            raise
        finally:
            self._waiter = None
            self._deadlines.discard(self)
        error = self._error
        if error is not None and not self.status:
            if isinstance(error, UpstreamError):
                self.release()
            raise error

    async def read(self, by: float) -> bytes:
        """See Reply.chunk."""
        chunks = self._chunks
        if not chunks:
            if self.state is BODY:
                await self._news(by)
            if not chunks:
                if self._error is not None:
                    raise self._error
                return b""
        elif by <= self.clock():
            chunks.clear()
            error = faults.late(self.upstream, begun=True)
            self._fail(error)
            raise error
        return self._take()

    async def relay(self, step: Step, by: float) -> None:
        """See Reply.relay. `step` runs while data is read: waking a coroutine costs more than it.

        What it writes leaves with the turn, like everything else.
        """
        if self._chunks:
            next_by = step(self._take())
            if next_by is None:
                return
            by = next_by
        if self.state is not BODY:
            return
        self._step, self._step_error = step, None
        try:
            await self._news(by)
        finally:
            self._step = None
        if self._step_error is not None:
            raise self._step_error

    async def _news(self, by: float) -> None:
        """Wait for bytes of the body that no step takes, its end, or an error."""
        waiter = self._waiter = waiter_of(self._turn)
        self.by = by
        self._deadlines.add(self)
        try:
            await waiter
        except asyncio.CancelledError:
            self._fail(UpstreamBroken("the exchange was cancelled", upstream=self.upstream))
            raise
        finally:
            self._waiter = None
            self._deadlines.discard(self)

    def _take(self) -> bytes:
        """Return what has arrived of the body."""
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self.buffered = 0
        if self._full:
            self._resume()
        return data

    def release(self) -> None:
        """End the exchange, in whatever state it is: keep the connection if it is reusable."""
        state = self.state
        if (
            (state is COMPLETE or state is READY)
            and self._reusable
            and not self.buffered
            and not self._lost
            and not self._transport.get_write_buffer_size()
        ):
            if state is COMPLETE:
                self.state = ON_RELEASE[self.state]
                self._reused = True
            self._barren = self.status = self._informational = 0
            self._owner.keep(self)
            return
        if state is SENT or state is BODY:
            self._fail(UpstreamBroken("the exchange was abandoned", upstream=self.upstream))
        self.abort()
        self._owner.free(self)

    def abort(self) -> None:
        """Close the socket now, even if data is still unsent."""
        self._reusable = False
        if not self._lost:
            self._turn.drop(self._transport)
            self._transport.abort()

    def drop(self) -> None:
        """Close this connection, which is idle."""
        self.idle = False
        self._owner.forget(self)
        self.abort()

    def expire(self) -> None:
        """Fail the waiting coroutine: `by` has passed."""
        if self._waiter is not None:
            self._fail(faults.late(self.upstream, begun=bool(self.status)))

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        state = self.state
        if state is not SENT and state is not BODY:
            self._surplus()
            return
        if len(data) > LONG and self._rest is None:
            self._pace(data)
            return
        if self._between and self._step is not None and (body := whole_chunk(data)):
            self._pass_on(self._step, body)
            return
        self._barren += len(data)
        if not self.status:
            self._head = self._head + data if self._head else data
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as exc:
            if self.state is COMPLETE:
                self._surplus()
            else:
                self._fail(faults.not_http(self.upstream, exc), exc)
            return
        self._between = self._between and data.endswith(b"\r\n")
        if self._barren > self._most_barren and self.state is not COMPLETE:
            self._fail(faults.too_long(self.upstream, self._most_barren))

    def eof_received(self) -> None:
        self._eof, self._reusable = True, False
        if self.idle:
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._take_rest()
        self._lost = True
        del self._parser  # it references our methods: a cycle, once per connection
        if self.idle:
            self.drop()
        elif self.state is READY:
            self._error = faults.closed_early(self.upstream, exc)
        elif self.state is not SENT and self.state is not BODY:
            return
        elif (
            self.state is BODY
            and self._eof
            and exc is None
            and self.headers.ends_with_the_connection()
        ):
            self.state = ON_END[self.state]
            self._wake()
        elif (
            self.state is SENT and self._reused and not self._barren
        ) and self.clock() - self._sent_at < STALE_S:
            self._error = StaleConnection()
            self.state = ON_FAILURE[self.state]
            self._wake()
        else:
            self._fail(faults.lost(self.upstream, exc, begun=bool(self.status)), exc)

    # Called by the parser

    def on_message_begin(self) -> None:
        if self.state is COMPLETE:
            self._surplus()

    def on_headers_complete(self) -> None:
        if self.state is not SENT:
            return
        status = self._parser.get_status_code()
        if status < 100:
            self._fail(faults.odd_status(self.upstream, status))
            return
        if status < 200:
            self._informational += 1
            self._skipping = True
            if status == 101:
                self._fail(faults.switched(self.upstream))
            return
        self.headers = ReplyHeaders(head_of(self._head, self._informational))
        if (problem := self.headers.fault(self._limits, status)) is not None:
            self._fail(UpstreamBroken(problem, upstream=self.upstream))
            return
        self.status, self.state, self._head = status, ON_HEAD[self.state], b""
        if not self._parser.should_keep_alive():
            self._reusable = False
        if self._head_only:
            self._reusable = False  # the parser waits for a body that will not come
            self.state = ON_END[self.state]
        self._wake()

    def on_body(self, body: bytes) -> None:
        if self.state is not BODY:
            return
        self._barren = 0
        if self._step is not None:
            self._pass_on(self._step, body)
            return
        self._chunks.append(body)
        self.buffered += len(body)
        if self.buffered > BUFFER_BYTES:
            self._pause()
        self._wake()

    def on_chunk_header(self) -> None:
        self._between = False

    def on_chunk_complete(self) -> None:
        self._between = True

    def on_message_complete(self) -> None:
        self._between = False
        if self._skipping:
            self._skipping = False
        elif self.state is BODY:
            self.state = ON_END[self.state]
            self._wake()

    def _appetite(self) -> int:
        if self.state is SENT or self.state is BODY:
            return BUFFER_BYTES if self._step is None else SLICE
        return 0

    def _pass_on(self, step: Step, body: bytes) -> None:
        try:
            by = step(body)
        except Exception as error:  # noqa: BLE001  it is raised in the coroutine
            self._step_error = error
            by = None
        if by is None:
            self._step = None
            self._wake()
        else:
            self.by = by

    def _wake(self) -> None:
        if (waiter := self._waiter) is not None:
            self._waiter = None
            waiter.wake()

    def _fail(self, error: UpstreamError, cause: Exception | None = None) -> None:
        if self._error is None:
            error.__cause__ = cause
            self._error = error
            if isinstance(error, UpstreamSilent) or isinstance(cause, TimeoutError):
                self._owner.suspect(self._sent_at)
        self.state = ON_FAILURE[self.state]
        self.abort()
        self._wake()

    def _surplus(self) -> None:
        """Close: the peer sent unrequested bytes, so its next ones could not be attributed."""
        if self.idle:
            self.drop()
        else:
            self.abort()
