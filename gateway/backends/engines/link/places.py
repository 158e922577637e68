"""Places where an engine listens: a socket of this machine, or an address of another one."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from strowger_gateway.gateway.backends.engines.link.faults import Fault, fault_of
from strowger_gateway.local_engine.protocol.address import TcpAddress
from strowger_gateway.local_engine.protocol.mutual_tls import MutualTls

_KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""An engine whose machine is gone is noticed within 30 s, also while the model computes."""

_UNACKNOWLEDGED_MS = 30_000


class EnginePlace(Protocol):
    """longest_pause_s: between two attempts to connect.

    address: HOST:PORT on another machine, or "".
    """

    @property
    def longest_pause_s(self) -> float: ...
    @property
    def address(self) -> str: ...
    async def open(self, made: Callable[[], asyncio.BaseProtocol]) -> None:
        """Connect. Raises OSError, of which ssl.SSLError is one."""
        ...

    def fault(self, error: Exception | None, why: str) -> Fault | None:
        """Describe a failed connection. why: what the engine sent, or "".

        `None` where only the status of the engine's process explains it.
        """
        ...


class UnixPlace:
    """The socket of an engine that the gateway has started."""

    longest_pause_s = 0.5
    address = ""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def open(self, made: Callable[[], asyncio.BaseProtocol]) -> None:
        """See EnginePlace.open."""
        await asyncio.get_running_loop().create_unix_connection(made, str(self.path))

    def fault(self, error: Exception | None, why: str) -> Fault | None:
        """See EnginePlace.fault."""
        return Fault("incompatible", why) if why else None


class NoPlace:
    """The place of a provider's engines while no address is known. why: for the log."""

    longest_pause_s = 0.5
    address = ""

    def __init__(self, why: str) -> None:
        self._why = why

    async def open(self, made: Callable[[], asyncio.BaseProtocol]) -> None:
        """See EnginePlace.open."""
        raise ConnectionRefusedError

    def fault(self, error: Exception | None, why: str) -> Fault | None:
        """See EnginePlace.fault."""
        return Fault("no engine is known", self._why)


class TcpPlace:
    """An engine at an address.

    server_name: the name that its certificate must have, if that is not the address's host.
    """

    longest_pause_s = 5.0

    def __init__(
        self, address: TcpAddress, tls: MutualTls | None, server_name: str | None = None
    ) -> None:
        self.tcp = address
        self.tls = tls
        self.server_name = server_name or address.host

    @property
    def address(self) -> str:
        """See EnginePlace.address."""
        return str(self.tcp)

    async def open(self, made: Callable[[], asyncio.BaseProtocol]) -> None:
        """See EnginePlace.open."""
        loop = asyncio.get_running_loop()
        context: ssl.SSLContext | None = None if self.tls is None else self.tls.context()
        transport, _ = await loop.create_connection(
            made,
            self.tcp.host,
            self.tcp.port,
            ssl=context,
            server_hostname=None if context is None else self.server_name,
            ssl_shutdown_timeout=None if context is None else 1.0,
        )
        peer: socket.socket | None = transport.get_extra_info("socket")
        if peer is not None:
            _set_options(peer)

    def fault(self, error: Exception | None, why: str) -> Fault | None:
        """See EnginePlace.fault."""
        cert = None if self.tls is None else self.tls.paths.cert
        return fault_of(error, why, address=self.address, name=self.server_name, cert=cert)


def _set_options(peer: socket.socket) -> None:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (*_KEEPALIVE, ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED_MS)):
        option: int | None = getattr(socket, name, None)
        if option is not None:
            peer.setsockopt(socket.IPPROTO_TCP, option, value)
