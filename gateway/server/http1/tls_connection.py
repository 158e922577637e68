"""TLS on one connection of a client: the handshake, then cleartext for a `ClientConnection`.

It stands between the socket and the connection, as a protocol to one and a transport to the other.
docs/adr/0036-tls-at-the-listener.md says why the event loop's own TLS transport is not used.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from strowger_gateway.gateway.server.http1.handshake_turns import HandshakeTurns
from strowger_gateway.gateway.server.http1.open_connections import (
    OpenConnections,
    Standing,
    client_of,
)
from strowger_gateway.gateway.server.http1.response_head import ResponseHeads
from strowger_gateway.gateway.server.tls.certificate import (
    CERTIFICATE,
    Certificate,
    certificate_of,
)

HANDSHAKE_S = 10.0
"""Seconds for a handshake. A browser far away takes less than 1 s."""

LINGER_S = 10.0
"""Seconds for a client to read why its handshake was refused, and to close."""

_RECORD = 16 * 1024
"""The most cleartext per record, so the most that one call to OpenSSL returns.
https://www.rfc-editor.org/rfc/rfc8446#section-5.1"""

_MOST_BEFORE = 64 * 1024
"""Bytes that are read before a handshake is complete: what follows it may be a request."""

_CLEARTEXT = "this port serves HTTPS; use https:// in the URL"


class TlsSource(Protocol):
    """The listener's side of handshakes. context: for connections that are accepted now."""

    context: ssl.SSLContext

    def succeeded(self) -> None: ...

    def failed(self, error: ssl.SSLError, peer: object) -> None:
        """OpenSSL ended a handshake. peer: the client's socket address."""
        ...

    def refused(self, outcome: str, why: str, peer: object) -> None:
        """A handshake ended otherwise. outcome: disconnected or timeout. why: for the log."""
        ...


class TlsConnection(asyncio.Transport, asyncio.Protocol):
    """One client's connection, encrypted.

    During the handshake it is one of the server's `connections`; afterwards the protocol from
    `inner` is. The client ends its side with a close_notify alert or without one: requests have
    their own framing, so a body that is cut off is noticed all the same.

    secured: the TLS session.
    """

    def __init__(
        self,
        source: TlsSource,
        inner: Callable[[], asyncio.Protocol],
        heads: ResponseHeads,
        connections: OpenConnections,
        turns: HandshakeTurns,
    ) -> None:
        super().__init__()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.secured = source.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._make_inner = inner
        self._inner: asyncio.Protocol | None = None
        self._source = source
        self._certificate: Certificate | None = None
        self._heads = heads
        self._connections = connections
        self._turns = turns
        self._address = ""
        # Its handshake waits for its turn; the client has closed its side in the meantime.
        self._waits = self._half_closed = False
        self._tcp: asyncio.Transport  # from connection_made
        self._began: float | None = None
        # The client has sent something: load balancers try whether a port is open, and close.
        self._spoke = False
        # The handshake has failed; our side is closed; the client's side is closed.
        self._refused = self._closed = self._ended = False

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._tcp = cast(asyncio.Transport, transport)
        self._address = client_of(self._tcp)
        self._connections.enter(self, self._tcp, clear=False)

    def data_received(self, data: bytes) -> None:
        if self._closed or self._refused:
            return
        self._spoke = True
        self._incoming.write(data)
        if self._inner is None:
            if not self._waits:
                self._waits = True
                self._turns.step_soon(self, self._address)
            elif self._incoming.pending > _MOST_BEFORE:
                self._tcp.pause_reading()
            return
        self._read()

    def step(self) -> None:
        """See HandshakeStep."""
        self._waits = False
        if self._tcp.is_closing():
            return
        if not self._tcp.is_reading():
            self._tcp.resume_reading()
        if self._shake():
            self._read()
        if self._half_closed and not self._end():
            self._tcp.close()

    def _read(self) -> None:
        """Pass on what can be decrypted."""
        inner = self._inner
        if inner is None:
            return
        read, incoming, pending = self.secured.read, self._incoming, self.secured.pending
        try:
            while incoming.pending or pending():
                clear = read(_RECORD)
                if not clear:
                    self._end()
                    break
                inner.data_received(clear)
                if self._closed:
                    return
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self._flush()  # the alert that says why
            self.abort()
            return
        if self._outgoing.pending:
            self._flush()

    def eof_received(self) -> bool:
        """Close_notify or not: the client sends nothing more."""
        self._half_closed = self._waits  # its turn comes
        return self._half_closed or self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.connection_lost(exc)
        elif self._spoke and not self._refused:
            self._source.refused("disconnected", "the client closed the connection", self._peer())
        del self._make_inner  # it refers to the server: no cycles

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    # Called by the inner protocol, and at the end of a turn

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closed or not data:
            return
        try:
            sent = self.secured.write(data)
            while sent < len(data):
                sent += self.secured.write(memoryview(data)[sent:])
        except ssl.SSLError:
            self.abort()
            return
        self._tcp.write(self._outgoing.read())

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """End our side; what the client still sends is discarded."""
        self._say_goodbye()
        if not self._tcp.is_closing():
            self._tcp.write_eof()

    def close(self) -> None:
        """Close when everything is sent, without waiting for the client's close_notify.

        https://www.rfc-editor.org/rfc/rfc8446#section-6.1
        """
        self._say_goodbye()
        self._tcp.close()

    def is_closing(self) -> bool:
        return self._tcp.is_closing()

    def abort(self) -> None:
        self._closed = True
        self._tcp.abort()

    def pause_reading(self) -> None:
        self._tcp.pause_reading()

    def resume_reading(self) -> None:
        self._tcp.resume_reading()

    def get_write_buffer_size(self) -> int:
        return self._tcp.get_write_buffer_size()

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "sslcontext":
            return self.secured.context
        if name == CERTIFICATE:
            return self._certificate
        return self._tcp.get_extra_info(name, default)

    # Called by the server during the handshake

    def standing(self, at: float) -> Standing | None:
        """See OpenConnection."""
        if self._tcp.is_closing():
            return None
        return Standing(rank=0, since=at if self._began is None else self._began)

    def check_deadline(self, at: float, limit_s: float) -> None:
        """See ReapedConnection."""
        if self._began is None:
            self._began = at
        elif self._refused and at - self._began >= min(limit_s, LINGER_S):
            self.abort()
        elif not self._refused and at - self._began >= min(limit_s, HANDSHAKE_S):
            self._refused = True
            why = f"not complete after {at - self._began:.0f} s"
            self._source.refused("timeout", why, self._peer())
            self.abort()

    def close_idle(self) -> None:
        """The client has not finished its handshake: its request gets an answer."""

    def shutdown(self) -> None:
        """The server stops: no request has arrived."""
        self._refused = True
        self._tcp.close()

    def cut(self) -> None:
        """There is no request to cancel."""

    # The handshake

    def _shake(self) -> bool:
        """Continue the handshake. Return whether it is complete."""
        if self._tcp.is_closing():
            return False
        try:
            self.secured.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError as exc:
            self._refuse(exc)
            return False
        self._flush()
        self._source.succeeded()
        if found := self.secured.getpeercert():
            self._certificate = certificate_of(found)
        self._inner = self._make_inner()
        self._inner.connection_made(self)
        return True

    def _refuse(self, exc: ssl.SSLError) -> None:
        """End the connection so that the client can read the reason: an alert, or 400."""
        self._refused = True
        self._began = None
        self._source.failed(exc, self._peer())
        alert = self._outgoing.read()
        if exc.reason == "HTTP_REQUEST":
            alert = self._heads.refusal(400, _CLEARTEXT)
        if alert:
            self._tcp.write(alert)
        self._tcp.write_eof()

    def _peer(self) -> object:
        return self._tcp.get_extra_info("peername")

    # Ends

    def _end(self) -> bool:
        """Pass the end of the client's side on, once. Return whether our side stays open."""
        if self._ended or self._inner is None or self._closed:
            return self._ended and not self._closed
        self._ended = True
        stays = bool(self._inner.eof_received())
        if not stays:
            self.close()
        return stays

    def _say_goodbye(self) -> None:
        """Send close_notify, once, after everything else."""
        if self._closed:
            return
        self._closed = True
        with suppress(ssl.SSLError):  # it waits for the client's, which is not needed
            self.secured.unwrap()
        self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._tcp.is_closing():
            self._tcp.write(self._outgoing.read())
