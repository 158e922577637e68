"""Accept gateways on TCP: handshakes with a timeout, names of certificates, limited connections."""

import asyncio
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol, cast

from msgspec import Struct

from strowger_gateway.local_engine.listening.alerting import AlertingContext, accept_tls
from strowger_gateway.local_engine.protocol.address import TcpAddress
from strowger_gateway.local_engine.protocol.frame_intake import MAX_REQUEST_BYTES, FrameIntake
from strowger_gateway.local_engine.protocol.frames import ConnectionRefusal, frame
from strowger_gateway.local_engine.protocol.mutual_tls import MutualTls, TlsPaths, peer_names
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.holdings import Holder, Holdings

HANDSHAKE_S = 10.0
"""Seconds for a TLS handshake."""

HANDSHAKES_PER_HOST = 16
"""Concurrent handshakes per address; any machine that reaches the port can begin them."""

QUIET_S = 10.0
"""Seconds without a second line about the same host and reason."""

_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A gateway whose machine is gone is noticed within 30 s, and its requests are cancelled."""

_UNACKNOWLEDGED_MS = 30_000


class Listening(Struct, frozen=True, kw_only=True):
    """Where an engine listens for gateways of other machines, and which it admits.

    tls: `None` only for a loopback address. allow: names of client certificates, any of which
    suffices; () admits every certificate of the authority. connections: most at a time, of which
    one address leaves an eighth to others. max_request: bytes of a request.
    """

    address: TcpAddress
    tls: TlsPaths | None = None
    allow: tuple[str, ...] = ()
    connections: int = 256
    max_request: int = MAX_REQUEST_BYTES


class Admitted(Protocol):
    """The protocol of an admitted connection. busy: it has requests that have not ended."""

    @property
    def busy(self) -> bool: ...
    def leave(self) -> None:
        """Announce that the engine ends when its requests are finished."""
        ...

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...


def check_listening(listening: Listening) -> None:
    """Raises InvalidConfig for cleartext that other machines could reach."""
    address = listening.address
    if listening.tls is None and not address.loopback:
        raise InvalidConfig(
            (
                f"--listen {address}: an address that other machines reach requires mutual TLS; "
                "give --tls-cert, --tls-key and --tls-ca, or listen on 127.0.0.1",
            )
        )
    if listening.allow and listening.tls is None:
        raise InvalidConfig(("--tls-allow requires --tls-cert, --tls-key and --tls-ca",))


def warnings_of(listening: Listening) -> tuple[str, ...]:
    """Return what an operator should know before gateways connect."""
    if listening.tls is None or listening.allow:
        return ()
    return (
        "every certificate of the authority in --tls-ca may connect; name those of the gateways "
        "with --tls-allow",
    )


def intake_of(listening: Listening) -> FrameIntake:
    """Return what bounds the unfinished frames of all connections."""
    return FrameIntake(listening.max_request)


class TcpListener:
    """Bind, then `serve` until `close`. connections: those that are admitted."""

    def __init__(
        self,
        listening: Listening,
        made: Callable[[], Admitted],
        report: Callable[[str], None],
        *,
        handshake_s: float = HANDSHAKE_S,
    ) -> None:
        """made: creates the protocol of an admitted connection. report: gets a line for the log.

        Raises InvalidConfig if the address or the certificates cannot be used.
        """
        check_listening(listening)
        self._listening = listening
        self._made = made
        self._report = report
        self._handshake_s = handshake_s
        self._tls = (
            None
            if listening.tls is None
            else MutualTls(listening.tls, server=True, report=report, kind=AlertingContext)
        )
        self._socket = _bound(listening.address)
        self.connections: dict[asyncio.BaseTransport, Admitted] = {}
        self._handshakes: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reported: dict[tuple[str, str], float] = {}

    @property
    def address(self) -> TcpAddress:
        """The bound address, with the port that was free if 0 was given."""
        return TcpAddress(self._listening.address.host, int(self._socket.getsockname()[1]))

    async def serve(self) -> None:
        """Accept until `close` or cancellation."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, found = await loop.sock_accept(self._socket)
            except OSError as exc:
                if self._socket.fileno() < 0:
                    return
                self._say("", f"connections cannot be accepted: {exc}")
                await asyncio.sleep(0.5)  # out of file descriptors, most likely
                continue
            self._accept(peer, str(found[0]))

    def close(self) -> None:
        """Stop listening. Established connections stay."""
        self._socket.close()
        for task in self._tasks:
            task.cancel()

    def admit(self, transport: asyncio.Transport) -> Admitted | None:
        """Return the protocol of a new connection, or send why it is refused."""
        why = self._refusal(transport)
        if why:
            transport.write(frame(ConnectionRefusal(why=why)))
            transport.close()
            return None
        made = self.connections[transport] = self._made()
        return made

    def lost(self, transport: asyncio.BaseTransport) -> None:
        self.connections.pop(transport, None)

    def _accept(self, peer: socket.socket, host: str) -> None:
        if self._handshakes[host] >= HANDSHAKES_PER_HOST:
            self._say(host, f"more than {HANDSHAKES_PER_HOST} handshakes at a time")
            peer.close()
            return
        self._handshakes[host] += 1
        task = asyncio.get_running_loop().create_task(self._welcome(peer, host))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _welcome(self, peer: socket.socket, host: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            _set_options(peer)
            if self._tls is None:
                await loop.connect_accepted_socket(lambda: _Threshold(self), peer)
                return
            context = self._tls.context()
            await accept_tls(lambda: _Threshold(self), peer, context, self._handshake_s)
        except OSError as exc:
            if why := _why(exc):
                self._say(host, why)
            peer.close()
        finally:
            self._handshakes[host] -= 1
            if not self._handshakes[host]:
                del self._handshakes[host]

    def _refusal(self, transport: asyncio.Transport) -> str:
        host = _host(transport)
        if self._tls is not None and self._listening.allow:
            names = peer_names(transport.get_extra_info("peercert"))
            if not set(names) & set(self._listening.allow):
                shown = ", ".join(names) or "without a name"
                self._say(host, f"the certificate of {shown} is not among --tls-allow")
                return f"the certificate of {shown} is not admitted (--tls-allow)"
        if len(self.connections) >= self._listening.connections and not self._make_room(host):
            why = f"{self._listening.connections} gateways are connected, which is the limit"
            self._say(host, why)
            return why
        return ""

    def _make_room(self, host: str) -> bool:
        """Close a connection of an address that holds those that one address leaves to others.

        One address may have all connections while no other needs one. One without requests is
        closed, otherwise the latest.
        """
        hosts = {transport: _host(transport) for transport in self.connections}
        counts = Counter(hosts.values())
        places = Holdings(self._listening.connections, several=True)
        largest, count = counts.most_common(1)[0]
        if largest == host or count <= places.most(Holder(largest)):
            return False
        theirs = [transport for transport, peer in hosts.items() if peer == largest]
        idle = [transport for transport in theirs if not self.connections[transport].busy]
        chosen = (idle or theirs)[-1]
        self._say(largest, f"it has {count} of {self._listening.connections} connections")
        del self.connections[chosen]
        cast(asyncio.Transport, chosen).abort()
        return True

    def _say(self, host: str, why: str) -> None:
        """Report a refusal, at most one line per host and reason in QUIET_S."""
        at = time.monotonic()
        if at - self._reported.get((host, why), -QUIET_S) < QUIET_S:
            return
        if len(self._reported) >= 1024:
            self._reported.clear()
        self._reported[host, why] = at
        self._report(f"refused a connection from {host}: {why}" if host else why)


class _Threshold(asyncio.Protocol):
    """The protocol of a connection whose handshake is done; passes everything to the admitted."""

    def __init__(self, listener: TcpListener) -> None:
        self._listener = listener
        self._served: Admitted | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._served = self._listener.admit(self._transport)
        if self._served is not None:
            self._served.connection_made(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._served is not None:
            self._served.data_received(data)

    def pause_writing(self) -> None:
        if self._served is not None:
            self._served.pause_writing()

    def resume_writing(self) -> None:
        if self._served is not None:
            self._served.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._listener.lost(self._transport)
        if self._served is not None:
            self._served.connection_lost(exc)


def _host(transport: asyncio.BaseTransport) -> str:
    return str((transport.get_extra_info("peername") or ("",))[0])


def _bound(address: TcpAddress) -> socket.socket:
    """Raises InvalidConfig."""
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, where = found[0]
        with ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind(where)
            listener.listen(128)
            on_failure.pop_all()
    except OSError as exc:
        raise InvalidConfig((f"--listen {address}: {exc.strerror or exc}",)) from exc
    return listener


def _set_options(peer: socket.socket) -> None:
    peer.setblocking(False)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*_KEEPALIVE, ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED_MS)):
        option: int | None = getattr(socket, name, None)
        if option is not None:
            peer.setsockopt(socket.IPPROTO_TCP, option, value)


_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it sent no client certificate",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "HTTP_REQUEST": "it speaks HTTP",
    "UNSUPPORTED_PROTOCOL": "it does not speak TLS 1.3",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust this engine's certificate (unknown authority)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it refused this engine's certificate, which has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it refused this engine's certificate",
}


def _why(exc: OSError) -> str:
    """Return "" for a client that just left: health checks of a port do."""
    if isinstance(exc, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {exc.verify_message}"
    if isinstance(exc, ssl.SSLError):
        reason = exc.reason or str(exc)
        return _REASONS.get(reason, reason.replace("_", " ").lower())
    if isinstance(exc, TimeoutError | ConnectionAbortedError):
        return "no TLS handshake in time"
    return ""
