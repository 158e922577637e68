"""One socket to a provider, and the exchange that is on it.

The protocol's callbacks put what arrives into the exchange's state and wake the one coroutine
that may wait for it; there is no task and no timer of the exchange's own.

When an unanswered request may be sent again (`Stale`): the connection had served an exchange
before, it was lost without one byte of an answer, and within `STALE_S` of sending. Servers close
idle connections whenever they like, and that may cross our request on the way
(https://www.rfc-editor.org/rfc/rfc9112#section-9.6); the peer's kernel then answers the request
with a reset that the server's program never saw. Such a reset is back within a round trip, so
a later one, or one on a fresh connection, means that a server died over the request, and that is
for routing to decide on. The second connection is always fresh, hence there is no third.
"""

import asyncio
from typing import Protocol, cast

import httptools
from httptools.parser.errors import HttpParserError, HttpParserUpgrade

from gateway.upstream.wire.deadlines import Deadlines
from gateway.upstream.wire.fields import Limits, fault_of, headers_of, size_of
from schemas.errors import UpstreamBroken, UpstreamError, UpstreamTimeout, UpstreamUnreachable

STALE_S = 1.0
BUFFER_BYTES = 256 * 1024


class Stale(Exception):
    """The request was never looked at; send it again on a fresh connection."""


class Owner(Protocol):
    """Whose slot a connection fills."""

    def keep(self, connection: "Connection") -> None:
        """The exchange is over and the connection can carry another."""
        ...

    def free(self) -> None:
        """The exchange is over and so is its connection."""
        ...

    def forget(self, connection: "Connection") -> None:
        """An idle connection is gone."""
        ...


class Connection(asyncio.Protocol):
    """Carries one exchange at a time: `send`, then `read` until b"", then `release`."""

    __slots__ = (
        "_barren",
        "_buffered",
        "_chunks",
        "_complete",
        "_deadlines",
        "_eof",
        "_error",
        "_fields",
        "_head_only",
        "_informational",
        "_limits",
        "_loop",
        "_lost",
        "_owner",
        "_parser",
        "_paused",
        "_reusable",
        "_reused",
        "_sent_at",
        "_transport",
        "_waiter",
        "by",
        "headers",
        "idle",
        "status",
        "upstream",
    )

    def __init__(self, upstream: str, owner: Owner, deadlines: Deadlines, limits: Limits) -> None:
        self.upstream = upstream
        self.by = 0.0
        self.idle = False
        self._owner = owner
        self._deadlines = deadlines
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._lost = self._eof = False
        # The mutable state of an exchange; `send` resets it.
        self.status = 0
        self.headers: dict[str, str] = {}
        self._fields: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._barren = 0
        self._sent_at = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._error: UpstreamError | Stale | None = None
        self._complete = True
        self._reusable = True
        self._reused = False
        self._informational = False
        self._head_only = False
        self._paused = False

    @property
    def usable(self) -> bool:
        """Whether another exchange may begin, as far as anybody knows."""
        return self._reusable and not self._lost

    async def send(self, request: bytes, head_by: float, *, head_only: bool) -> None:
        """Begin an exchange and wait for the head of its answer: `status` and `headers`.

        Raises Stale, or UpstreamUnreachable, UpstreamTimeout or UpstreamBroken; only after Stale
        does the caller still own the connection's slot. `head_only`: HEAD's answer has no body.
        """
        now = self._loop.time()
        if head_by <= now or not self._reusable or self._lost:
            self.release()
            raise self._unsent(head_by <= now)
        self._complete = False
        self._head_only = head_only
        self._sent_at = now
        cast("asyncio.Transport", self._transport).write(request)
        try:
            await self._wait(head_by)
        except asyncio.CancelledError:
            self.release()
            raise
        error = self._error
        if error is not None and not self.status:
            if isinstance(error, UpstreamError):
                self.release()
            raise error

    async def read(self, by: float) -> bytes:
        """See Reply.chunk."""
        chunks = self._chunks
        if not chunks:
            if not self._complete and self._error is None:
                await self._wait(by)
            if not chunks:
                if self._error is not None:
                    raise self._error
                return b""
        elif by <= self._loop.time():
            chunks.clear()
            self._fail(self._late())
            raise cast("UpstreamError", self._error)
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._buffered = 0
        if self._paused:
            self._paused = False
            if not self._lost:
                cast("asyncio.Transport", self._transport).resume_reading()
        return data

    def release(self) -> None:
        """The exchange is over, wherever it stands."""
        transport = self._transport
        if (
            self._complete
            and self._reusable
            and not self._chunks
            and not self._lost
            and transport is not None
            and not transport.get_write_buffer_size()
        ):
            self._reused = True
            self._barren = self.status = 0
            self._owner.keep(self)
            return
        if not self._complete:
            self._fail(UpstreamBroken("the exchange was given up", upstream=self.upstream))
        self.abort()
        self._owner.free()

    def abort(self) -> None:
        """Close the socket now, whatever is still to be sent."""
        self._reusable = False
        if self._transport is not None and not self._lost:
            self._transport.abort()

    def expire(self) -> None:
        """`by` has passed."""
        if self.idle:
            self._drop_idle()
        elif self._waiter is not None and not self._waiter.done():
            self._fail(self._late())

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._complete:
            self._surplus()
            return
        buffered = self._buffered
        self._barren += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as exc:
            if self._complete:
                self._surplus()
            else:
                problem = f"the answer is not HTTP/1.1: {exc}"
                self._fail(UpstreamBroken(problem, upstream=self.upstream), exc)
            return
        if self._buffered != buffered:
            self._barren = 0
        elif self._barren > self._limits.head_bytes and not self._complete:
            self._fail(self._too_long())

    def eof_received(self) -> None:
        self._eof = True
        self._reusable = False
        if self.idle:
            self._drop_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        del self._parser  # it holds our methods: a cycle, once per connection
        if self.idle:
            self._drop_idle()
        elif self._complete or self._error is not None:
            return
        elif self.status and self._eof and exc is None and self._ends_with_the_connection():
            self._complete = True
            self._wake()
        elif (
            self._reused
            and not self._barren
            and not self.status
            and self._loop.time() - self._sent_at < STALE_S
        ):
            self._error = Stale()
            self._wake()
        else:
            where = "in the middle of its answer" if self.status else "without an answer"
            reason = f": {exc}" if exc is not None else ""
            problem = f"closed the connection {where}{reason}"
            self._fail(UpstreamBroken(problem, upstream=self.upstream), exc)

    # What the parser calls

    def on_message_begin(self) -> None:
        if self._complete:
            self._surplus()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        status = self._parser.get_status_code()
        fields, self._fields = self._fields, []
        if status < 200:
            self._informational = True
            if status == 101:
                problem = "switched to another protocol unasked"
                self._fail(UpstreamBroken(problem, upstream=self.upstream))
            return
        if self._barren > self._limits.head_bytes and size_of(fields) > self._limits.head_bytes:
            self._fail(self._too_long())
            return
        self.headers = headers_of(fields)
        problem = fault_of(self.headers, len(fields), self._limits)
        if problem is not None:
            self._fail(UpstreamBroken(problem, upstream=self.upstream))
            return
        self.status = status
        if not self._parser.should_keep_alive():
            self._reusable = False
        if self._head_only:
            self._reusable = False  # the parser waits for a body that will not come
            self._complete = True
        self._wake()

    def on_body(self, body: bytes) -> None:
        if self._complete:
            return
        self._chunks.append(body)
        self._buffered += len(body)
        if self._buffered > BUFFER_BYTES and not self._paused:
            self._paused = True
            cast("asyncio.Transport", self._transport).pause_reading()
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def on_message_complete(self) -> None:
        if self._informational:
            self._informational = False
        elif not self._complete and self._error is None:
            self._complete = True
            self._wake()

    # Underneath

    async def _wait(self, by: float) -> None:
        """Until the head is there, or a body's bytes, its end, or an error."""
        waiter = self._waiter = self._loop.create_future()
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

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, error: UpstreamError, cause: Exception | None = None) -> None:
        if self._error is None:
            error.__cause__ = cause
            self._error = error
        self.abort()
        self._wake()

    def _surplus(self) -> None:
        """The peer sent what nobody asked for; what it sends next could belong to anything."""
        if self.idle:
            self._drop_idle()
        else:
            self.abort()

    def _drop_idle(self) -> None:
        self.idle = False
        self._deadlines.discard(self)
        self._owner.forget(self)
        self.abort()

    def _late(self) -> UpstreamError:
        problem = "the answer stalled" if self.status else "the answer did not begin in time"
        return UpstreamTimeout(problem, upstream=self.upstream)

    def _unsent(self, late: bool) -> UpstreamError:
        if late:
            return UpstreamTimeout("no time is left for an answer", upstream=self.upstream)
        problem = "closed the connection before the request"
        return UpstreamUnreachable(problem, upstream=self.upstream)

    def _too_long(self) -> UpstreamError:
        problem = f"the answer's head or trailer is over {self._limits.head_bytes} bytes"
        return UpstreamBroken(problem, upstream=self.upstream)

    def _ends_with_the_connection(self) -> bool:
        return not ("content-length" in self.headers or "transfer-encoding" in self.headers)
