"""Serve an application on a listening socket, until `stop`."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial

from gateway.eventloop.turn import current_turn
from gateway.http.server.application import Application, HotHandler
from gateway.http.server.connection import ClientConnection
from gateway.http.server.handshake_turns import HandshakeTurns
from gateway.http.server.lifespan import Lifespan
from gateway.http.server.open_connections import ConnectionLimits, OpenConnections
from gateway.http.server.response_head import ResponseHeads
from gateway.http.server.tls_connection import TlsConnection, TlsSource

_log = logging.getLogger("strowger")

GRACE_S = 1.0
"""Seconds after `stop` for answers that are being sent."""

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
        self._listening: asyncio.Server | None = None

    async def serve(self, listener: socket.socket) -> None:
        """Start the application, serve, and return when all connections are closed.

        Raises RuntimeError if the application cannot start or stop.
        """
        if self._lifespan is not None:
            await self._lifespan.start()
        self._listening = await self.turn.loop.create_server(
            self._connection, sock=listener, backlog=_BACKLOG
        )
        self.listening.set()
        try:
            await self._stop.wait()
        finally:
            await self._close()
        if self._lifespan is not None and not self._at_once:
            await self._lifespan.stop()

    def _connection(self) -> asyncio.Protocol:
        if self._tls is None:
            return ClientConnection(self)
        make = partial(ClientConnection, self)
        return TlsConnection(self._tls, make, self.heads, self.connections, self._handshakes)

    def stop_listening(self) -> None:
        """Release the address now; connections go on."""
        if self._listening is not None:
            self._listening.close()

    def close_idle(self) -> None:
        """Close the connections whose clients have sent nothing since their last answer."""
        for connection in tuple(self.connections):
            connection.close_idle()

    def stop(self, *, at_once: bool = False) -> None:
        """End `serve`: answers that are being sent have GRACE_S, or none if `at_once`."""
        self._at_once = self._at_once or at_once
        self._stop.set()

    async def _close(self) -> None:
        self.stop_listening()
        for connection in tuple(self.connections):
            connection.shutdown()
        end = self.turn.loop.time() + (0.0 if self._at_once else GRACE_S)
        while self.connections and self.turn.loop.time() < end and not self._at_once:  # noqa: ASYNC110
            # The last bytes of answers leave, and clients close.
            await asyncio.sleep(0.02)
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
