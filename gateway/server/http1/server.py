"""Serve an application on a listening socket, until `stop`."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.gateway.platform.eventloop.turn import current_turn
from strowger_gateway.gateway.server.http1.application import Application, HotHandler
from strowger_gateway.gateway.server.http1.connection import ClientConnection
from strowger_gateway.gateway.server.http1.handshake_turns import HandshakeTurns
from strowger_gateway.gateway.server.http1.lifespan import Lifespan
from strowger_gateway.gateway.server.http1.open_connections import (
    ConnectionLimits,
    OpenConnection,
    OpenConnections,
)
from strowger_gateway.gateway.server.http1.response_head import ResponseHeads
from strowger_gateway.gateway.server.http1.tls_connection import TlsConnection, TlsSource

_log = logging.getLogger("strowger")

GRACE_S = 1.0
"""Seconds after `stop` for answers that are being sent."""

FRESH_S = 0.5
"""Seconds for which a connection without a request is taken for one whose request is on its way."""

_BACKLOG = 2048


class HttpServer:
    """The connections of one process. Create it in the event loop that it serves in.

    connections: those that are open. tasks: requests that run as ASGI.
    listening: set when connections are accepted.
    draining: each connection ends with its next answer, which says so.
    hot: path and handler of hot requests by target, as far as the path is fixed.
    """

    def __init__(
        self,
        application: Application,
        *,
        tls: TlsSource | None = None,
        lifespan: bool = True,
        limits: Callable[[], ConnectionLimits] | None = None,
    ) -> None:
        """tls: `None` serves cleartext. lifespan: start and stop the application, too.

        limits: of connections, called for each new one.
        """
        self.application = application
        self.tasks: set[asyncio.Task[None]] = set()
        self.turn = current_turn()
        self.heads = ResponseHeads()
        self.connections = OpenConnections(self.heads, limits)
        self.hot: Mapping[bytes, tuple[str, HotHandler]] = {
            path.encode(): (path, handler) for path, handler in application.hot.items()
        }
        self._tls = tls
        self._handshakes = HandshakeTurns()
        self._lifespan = Lifespan(application) if lifespan else None
        self.listening = asyncio.Event()
        self.draining = False
        self._stop = asyncio.Event()
        self._at_once = False
        self._listeners: tuple[socket.socket, ...] = ()
        self._listening: list[asyncio.Server] = []

    async def serve(self, *listeners: socket.socket, gate: asyncio.Event | None = None) -> None:
        """Start the application, serve, and return when all connections are closed.

        gate: connections are accepted when it is set; `None`: when the application has started.
        Raises RuntimeError if the application cannot start or stop.
        """
        if self._lifespan is not None:
            await self._lifespan.start()
        try:
            if gate is not None:
                await self._opened(gate)
            if not self._stop.is_set():
                await self._listen(listeners)
            await self._stop.wait()
        finally:
            await self._close()
            for one in listeners:
                one.close()  # unless it was never opened, it is closed already
        if self._lifespan is not None and not self._at_once:
            await self._lifespan.stop()

    async def _opened(self, gate: asyncio.Event) -> None:
        """Return when the gate is open, or the server stops."""
        waits = [asyncio.ensure_future(one.wait()) for one in (gate, self._stop)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()

    async def _listen(self, listeners: tuple[socket.socket, ...]) -> None:
        self._listeners = listeners
        for one in listeners:
            self._listening.append(
                await self.turn.loop.create_server(self._connection, sock=one, backlog=_BACKLOG)
            )
        self.listening.set()

    def _connection(self) -> asyncio.Protocol:
        if self._tls is None:
            return ClientConnection(self)
        make = partial(ClientConnection, self)
        return TlsConnection(self._tls, make, self.heads, self.connections, self._handshakes)

    def stop_listening(self) -> None:
        """Release the address now; connections go on."""
        self._listeners = ()
        for one in self._listening:
            one.close()

    async def close_idle(self) -> None:
        """Close the connections whose clients have sent nothing since their last answer.

        Those that have just been opened or answered stay: their next request may be on its way.
        Each closes in an iteration of its own: what arrives between the look at its socket and the
        close, which the event loop puts off to the end of the iteration, is lost.
        """
        for connection in tuple(self.connections):
            if connection not in self.connections:
                continue
            at = now()
            standing = connection.standing(at)
            if standing is None or at - standing.since >= FRESH_S:
                connection.close_idle()
                await asyncio.sleep(0)

    def stop(self, *, at_once: bool = False) -> None:
        """End `serve`: answers that are being sent have GRACE_S, or none if `at_once`."""
        self._at_once = self._at_once or at_once
        self._stop.set()

    async def _close(self) -> None:
        await self._accept_rest()
        self.stop_listening()
        end = self.turn.loop.time() + (0.0 if self._at_once else GRACE_S)
        done = set[OpenConnection]()
        self._shut_down(done, waits=self.draining and not self._at_once)
        while self.connections and self.turn.loop.time() < end:
            # The last bytes of answers leave, and clients close.
            await asyncio.sleep(0.02)
            self._shut_down(done, waits=self.draining)
        self._shut_down(done, waits=False)
        await asyncio.sleep(0)
        if self.connections and not self._at_once:
            _log.warning("cutting %d connections that are still open", len(self.connections))
        for connection in tuple(self.connections):
            connection.cut()
        for task in tuple(self.tasks):
            task.cancel()
        await asyncio.sleep(0)
        if self.tasks:
            await asyncio.wait(tuple(self.tasks), timeout=GRACE_S)
        for connection in tuple(self.connections):
            connection.abort()
        self.connections.abort_refused()
        await asyncio.sleep(0)  # aborted sockets are closed in the loop's next iteration

    async def _accept_rest(self) -> None:
        """Accept what waits in the queues: closing them would reset it."""
        for one in self._listeners if self.draining and not self._at_once else ():
            with suppress(OSError):  # it is empty
                while True:
                    connection, _ = one.accept()
                    connection.setblocking(False)
                    await self.turn.loop.connect_accepted_socket(self._connection, connection)

    def _shut_down(self, done: set[OpenConnection], *, waits: bool) -> None:
        """Close each connection when its request is answered, and add it to `done`.

        waits: leave connections whose first request may be on its way.
        """
        at = now()
        for connection in tuple(self.connections):
            standing = connection.standing(at) if waits else None
            fresh = standing and not standing.rank and at - standing.since < FRESH_S
            if not fresh and connection not in done:
                done.add(connection)
                connection.shutdown()
