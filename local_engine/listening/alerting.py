"""Server-side handshakes whose failure the client learns.

asyncio closes a connection whose handshake failed without the alert that OpenSSL has written for
the client, so that a gateway could not see that its certificate has expired.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar

LINGER_S = 2.0
"""Seconds for the client to read the alert: closing at once would reset the connection."""

_alerts: ContextVar[list[bytes]] = ContextVar("alerts")
"""Of the handshake that a task has begun."""


class _Handshake(ssl.SSLObject):
    """Keeps the alert of a failed handshake: asyncio drops it with the connection."""

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        """See SSLObject.do_handshake."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            with suppress(LookupError):
                _alerts.get().append(self.outgoing.read())
            raise


class AlertingContext(ssl.SSLContext):
    """Makes connections whose failed handshakes can be explained, see `accept_tls`."""

    sslobject_class = _Handshake

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """See SSLContext.wrap_bio."""
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, _Handshake)
        made.outgoing = outgoing
        return made


async def accept_tls(
    made: Callable[[], asyncio.Protocol],
    peer: socket.socket,
    context: ssl.SSLContext,
    timeout_s: float,
) -> None:
    """Complete the handshake and make the protocol. Raises OSError after the alert is sent."""
    loop = asyncio.get_running_loop()
    alerts: list[bytes] = []
    _alerts.set(alerts)
    with peer.dup() as again:
        again.setblocking(False)
        try:
            await loop.connect_accepted_socket(
                made,
                peer,
                ssl=context,
                ssl_handshake_timeout=timeout_s,
                ssl_shutdown_timeout=1.0,
            )
        except ssl.SSLError:
            with suppress(OSError):
                async with asyncio.timeout(LINGER_S):
                    await loop.sock_sendall(again, b"".join(alerts))
                    again.shutdown(socket.SHUT_WR)
                    while await loop.sock_recv(again, 4096):
                        pass
            raise
