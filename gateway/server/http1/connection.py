"""One connection of a client: bytes become requests, and answers become bytes, in order.

A hot request is collected here and handed on when it is complete, in however many reads it
arrives. One with a large body, or that waits for `100 Continue`, is handed on with its head, so
that it is refused or admitted before its body is in memory.
"""

import asyncio
from collections import deque
from typing import cast

from litestar.types import HTTPScope

from strowger_gateway.gateway.platform.eventloop.inline_task import InlineTask, Waiter, waiter_of
from strowger_gateway.gateway.server.asgi.client_timeouts import arrived_bytes, set_receive_deadline
from strowger_gateway.gateway.server.http1.asgi_run import run_asgi
from strowger_gateway.gateway.server.http1.client_progress import ClientProgress, Wait
from strowger_gateway.gateway.server.http1.connection_server import ConnectionServer
from strowger_gateway.gateway.server.http1.exchange import HIGH_WATER, Exchange
from strowger_gateway.gateway.server.http1.open_connections import Standing
from strowger_gateway.gateway.server.http1.pipelined_data import (
    FEW_BYTES,
    PipelinedData,
    is_pipelined,
)
from strowger_gateway.gateway.server.http1.request_parser import (
    BadRequest,
    RequestParser,
    split_target,
)
from strowger_gateway.gateway.server.http1.socket_address import address_of
from strowger_gateway.gateway.server.tls.certificate import CERTIFICATE

MOST_WAITING = 4
"""Pipelined requests per connection before reading from it stops."""

MOST_COLLECTED = 16 * 1024
"""Bytes of a hot request's body that are collected before its handler starts: no more than a head
may have, because the API key is unchecked until then, and no key's memory share covers them."""

HALF_CLOSED_S = 0.05
"""Seconds for an answer to a client that has closed its side of the connection."""

_ASGI = {"version": "3.0", "spec_version": "2.3"}


class ClientConnection(asyncio.Protocol):
    """A connection, whose requests are answered in order.

    A disconnect is noticed even if the client has already sent its next request. A slow client is
    cut off. A client that is answered before it has sent everything receives its answer. A message
    that cannot be parsed never disturbs the answers to earlier ones.

    write_paused: the client does not read. served: a request with a valid key had an answer.
    """

    def __init__(self, server: ConnectionServer) -> None:
        self.turn = server.turn
        self.heads = server.heads
        self.write_paused = self.served = False
        self._server = server
        self._parser = RequestParser(self)
        self._transport: asyncio.Transport  # from connection_made
        self._local: tuple[str, int | None] | None = None
        self._peer: tuple[str, int] | None = None
        self._scheme = "http"
        self._certificate: object = None
        # Requests: the one that is answered, those behind it, and the last one.
        self._running: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._last: Exchange | None = None
        self._drainers: list[Waiter] = []
        self._read_paused = False
        self._held: PipelinedData | None = None
        # How the connection ends: the answer was sent and the client may finish sending; nothing
        # more is read; the client has closed its side; our side is closed.
        self._leaving = self._deaf = self._ended = self._left = False
        self._progress = ClientProgress()
        self._refusal = b""

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass of it
        if not self._server.connections.enter(self, self._transport):
            return  # the transport has another protocol now
        self._local = address_of(transport.get_extra_info("sockname"))
        peer = address_of(transport.get_extra_info("peername"))
        self._peer = None if peer is None else (peer[0], peer[1] or 0)
        self._scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        self._certificate = transport.get_extra_info(CERTIFICATE)

    def data_received(self, data: bytes) -> None:
        if self._leaving or self._deaf:
            return
        if self._held or (len(data) > FEW_BYTES and is_pipelined(data, MOST_WAITING)):
            self._held = self._held or PipelinedData(self, self.turn.loop)
            self._held.add(data)
        else:
            self.feed(data)

    def eof_received(self) -> bool:
        """The client is gone, or waits: a whole request is answered within HALF_CLOSED_S."""
        self._ended = True
        last = self._last
        if last is None or last.more_body or self._leaving or last.disconnected:
            return False
        self.turn.flush(self._transport)
        if last.complete and not self._held:
            return False
        last.keep_alive = last.keep_alive and bool(self._held)
        self.turn.loop.call_later(HALF_CLOSED_S, self.close)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self.turn.drop(self._transport)
        running, last, self._last = self._running, self._last, None
        for exchange in (running, last):
            if exchange is not None:
                exchange.disconnect()
        self._waiting.clear()
        if last is not None and not last.begun:
            self._begin(last)  # for its record: it arrived in part
        self._running = self._held = None  # they refer to their connection: no cycles
        self._progress.forget()
        self.resume_writing()
        self._parser.close()

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        drainers, self._drainers = self._drainers, []
        for one in drainers:
            one.wake()

    # Called by pipelined data

    def takes_more(self) -> bool:
        """See SlicedConnection."""
        return self._may_read() and not (self._deaf or self._leaving or self._closing())

    def feed(self, data: bytes) -> None:
        """See SlicedConnection."""
        try:
            self._parser.feed(data)
        except BadRequest as exc:
            self._refuse(self.heads.refusal(exc.status, exc.why))

    def pause_reading(self) -> None:
        """See SlicedConnection."""
        if not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()

    # Called by the parser

    def on_head(self) -> None:
        """See RequestSink."""
        parser = self._parser
        target = parser.target
        known = self._server.hot.get(target)
        path, raw_path, query = (known[0], target, b"") if known else split_target(target)
        scope: HTTPScope = {  # pyright: ignore[reportAssignmentType]  Litestar adds the rest
            "type": "http",
            "asgi": _ASGI,
            "http_version": parser.version,
            "server": self._local,
            "client": self._peer,
            "scheme": self._scheme,
            "root_path": "",
            "headers": parser.headers,
            "state": {},
            "method": parser.method,
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
        }
        if self._certificate is not None:
            scope["state"][CERTIFICATE] = self._certificate
        exchange = self._last = Exchange(
            self,
            scope,
            parser.fields,
            known[1] if known else self._server.application.find_hot(path),
            keep_alive=parser.keep_alive,
            expects=parser.expects_continue,
        )
        large = len(parser.length) > 4 and int(parser.length) > MOST_COLLECTED
        if exchange.hot is None or parser.expects_continue or large:
            self._begin(exchange)

    def on_body(self, body: bytes) -> None:
        """See RequestSink."""
        self._progress.body_bytes += len(body)
        exchange = self._last
        if exchange is None or exchange.complete:
            return
        exchange.feed(body)
        if exchange.size > MOST_COLLECTED and not exchange.begun:
            self._begin(exchange)
        if exchange.size > HIGH_WATER:
            self.pause_reading()

    def on_message_complete(self) -> None:
        """See RequestSink."""
        exchange = self._last
        if exchange is None:
            return
        exchange.finish()
        if not exchange.begun:
            self._begin(exchange)

    # Called by exchanges

    def write(self, data: bytes) -> None:
        """Send bytes of an answer at the end of this turn of the event loop."""
        if not self._left:
            self.turn.write(self._transport, data)

    async def drained(self, exchange: Exchange) -> None:
        """Wait until the client reads, or is gone."""
        while self.write_paused and not exchange.disconnected:
            waiter = waiter_of(self.turn)
            self._drainers.append(waiter)
            await waiter

    def ends_with(self, exchange: Exchange) -> bool:
        """Whether the server drains or is crowded, so that this request is the last one."""
        ends = self._server.draining or self._server.connections.crowded
        return ends and self._last is exchange

    def resume_reading(self) -> None:
        """Read again if a body was too far ahead of its reader."""
        if self._read_paused and self._may_read():
            if self._held:
                self._held.go_on_soon()
            else:
                self._read_paused = False
                self._transport.resume_reading()

    def on_answered(self, exchange: Exchange) -> None:
        """The last byte of an answer was sent: the next request's turn, or the connection ends."""
        if self._closing():
            return
        if not exchange.keep_alive:
            self.close()
            return
        if self._waiting:
            self._start(self._waiting.popleft())
        elif self._refusal:
            self.turn.write(self._transport, self._refusal)
            self.close()
            return
        if self._read_paused:
            self.resume_reading()

    def close(self) -> None:
        """Close without losing data.

        When data arrives at a closed socket, the system discards what the client has not read yet,
        such as the rejection of a large body. So if the client is not done, only our side ends, and
        the client closes, or a second call. https://www.rfc-editor.org/rfc/rfc9112#section-9.6
        """
        transport = self._transport
        self.turn.flush(transport)
        if self._left or transport.is_closing() or not transport.can_write_eof():
            transport.close()
        elif self._may_linger():
            self._left = True
            transport.write_eof()
        else:
            transport.close()

    # Called by the server

    def close_idle(self) -> None:
        """See OpenConnection."""
        begun = self._held or self._parser.head_started or arrived_bytes(self._transport)
        if (self._last is None or self._last.complete) and not begun:
            self.close()

    def shutdown(self) -> None:
        """Close when the last request that has begun to arrive is answered."""
        if self._last is None or self._last.complete:
            self.close()
        else:
            self._last.keep_alive = False

    def cut(self) -> None:
        """Cancel the request that is being answered."""
        if self._running is not None and self._running.cancel is not None:
            self._running.cancel()

    def abort(self) -> None:
        """Close the socket now, even if data is still unsent."""
        self._transport.abort()

    def check_deadline(self, at: float, limit_s: float) -> None:
        """Check that heads finish in time, bodies keep their rate, and answers are read."""
        wait = self._wait()
        if self._progress.overdue(wait, at, limit_s, self._transport) and wait is not None:
            self._give_up(wait, limit_s)

    def standing(self, at: float) -> Standing | None:
        """See OpenConnection."""
        wait = None if self._transport.is_closing() else self._wait()
        return None if wait is None else self._progress.standing(wait, at, served=self.served)

    # Requests, in order

    def _begin(self, exchange: Exchange) -> None:
        """Hand the request on, behind earlier ones of this connection."""
        exchange.begun = True
        if self._running is None or self._running.complete:
            self._start(exchange)
            return
        self._waiting.append(exchange)
        if len(self._waiting) > MOST_WAITING:
            self.pause_reading()

    def _start(self, exchange: Exchange) -> None:
        self._running = exchange
        hot = exchange.hot
        if hot is not None:
            inline = InlineTask(self.turn, hot.answer(exchange), exchange.fail)
            exchange.cancel = inline.cancel
            self.turn.run_soon(inline.start)
            return
        task = self.turn.loop.create_task(run_asgi(self._server.application, exchange))
        exchange.cancel = task.cancel
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    def _refuse(self, answer: bytes) -> None:
        """Answer a message that cannot be parsed, after the answers before it, and close."""
        running, last = self._running, self._last
        self._deaf = True
        if self._parser.in_body and last is not None and not last.begun:
            # No handler has started for this request, so its error is an ordinary answer.
            last.disconnected = True
            self._last = last = running
            self._parser.in_body = False
        if running is None or running.complete:
            if not self._parser.in_body:
                self.turn.write(self._transport, answer)
            self.close()
        elif self._parser.in_body and last is running:
            if not running.started:
                self.turn.write(self._transport, answer)
            running.disconnect()
            self.close()
        else:
            if self._parser.in_body:
                self._waiting.pop()
            self._refusal = answer

    # Slow clients

    def _may_linger(self) -> bool:
        """Return whether the client has more to send; if so, its data is discarded from then on."""
        last = self._last
        begun = self._deaf or self._held or self._parser.head_started
        unfinished = begun or (last is not None and last.more_body)
        self._leaving = bool(unfinished) and not self._ended
        if self._leaving and self._read_paused:
            self._read_paused = False
            self._transport.resume_reading()
        return self._leaving

    def _may_read(self) -> bool:
        return len(self._waiting) <= MOST_WAITING and not (self._last and self._last.ahead)

    def _closing(self) -> bool:
        return self._left or self._transport.is_closing()

    def _wait(self) -> Wait | None:
        """Return `None` if the gateway is next."""
        last = self._last
        if self._leaving or (last is not None and last.complete and last.more_body):
            return Wait(last=last, owes="leaving")
        closing = self._closing()
        if self.write_paused or (closing and self._transport.get_write_buffer_size()):
            return Wait(last=last, owes="reading")
        if closing:
            return None
        if last is None or last.complete:
            owes = "head" if last is None or self._parser.head_started else "nothing"
            return Wait(last=last, owes=owes)
        ours = not last.more_body or self._waiting or self._read_paused
        return None if ours else Wait(last=last, owes="body")

    def _give_up(self, wait: Wait, limit_s: float) -> None:
        if wait.owes in ("reading", "leaving"):
            self._transport.abort()
        elif wait.owes == "body" and wait.last is not None:
            set_receive_deadline(wait.last.scope, limit_s)
            wait.last.give_up()
            if not wait.last.begun:
                self._begin(wait.last)
        else:
            if self._parser.head_started:
                self.turn.write(self._transport, self.heads.refusal(408))
            self.close()
