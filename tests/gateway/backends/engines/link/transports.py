"""Both ways to an engine, for tests that hold over each: a Unix socket, and TCP with mutual TLS.

Not over TCP: that the gateway starts, restarts and replaces the process, that the process ends with
its parent, and the watchdog's exit, because an engine on TCP belongs to whatever started it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from msgspec import Struct

from strowger_gateway.gateway.backends.engines.link.places import EnginePlace, TcpPlace, UnixPlace
from strowger_gateway.gateway.backends.engines.process.process import EngineView
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.local_engine.listening.tcp_listener import Admitted
from strowger_gateway.local_engine.protocol.mutual_tls import MutualTls
from tests.gateway.backends.engines.link.fleets import Certificates
from tests.gateway.shared_engine import SharedEngine
from tests.local_engine.listening.ports import listening, paths_of

TRANSPORTS = ("socket", "tcp")


@asynccontextmanager
async def place_of(
    transport: str, made: Callable[[], Admitted], folder: Path
) -> AsyncGenerator[EnginePlace, None]:
    """Accept connections until the block ends. made: their protocol. folder: a short path."""
    if transport == "socket":
        path = folder / "engine.sock"
        server = await asyncio.get_running_loop().create_unix_server(
            lambda: cast(asyncio.Protocol, made()), path
        )
        yield UnixPlace(path)
        server.close()
        return
    certificates = Certificates(folder)
    async with listening(certificates.engine, made=made) as port:
        tls = MutualTls(paths_of(certificates.gateway), server=False)
        yield TcpPlace(port.listener.address, tls)


class Reached(Struct, frozen=True, kw_only=True, eq=False):
    """An engine and the provider that describes the way to it, as YAML."""

    provider: str
    engine: SharedEngine | None = None

    def serving(self, config: Config) -> Mapping[str, EngineView]:
        """Those of this machine: none over TCP."""
        return {} if self.engine is None else self.engine.serving(config)


def remote(name: str, address: object, tls: str) -> str:
    """A provider with one engine at an address, as YAML."""
    return f'{{name: {name}, adapter: local, engines: {{hosts: ["{address}"], tls: {tls}}}}}'


@asynccontextmanager
async def reached(
    transport: str, engine: SharedEngine, folder: Path
) -> AsyncGenerator[Reached, None]:
    """The shared engine, over its socket or through a listener on TCP in front of it."""
    if transport == "socket":
        yield Reached(provider=engine.provider, engine=engine)
        return
    certificates = Certificates(folder)
    async with listening(
        certificates.engine, made=lambda: Forward(engine.process.socket_path)
    ) as port:
        yield Reached(provider=remote("here", port.listener.address, certificates.tls()))


class Forward(asyncio.Protocol):
    """A connection on TCP that continues on an engine's socket, byte for byte."""

    busy = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._onward: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()
        self._connecting = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            self._onward, _ = await asyncio.get_running_loop().create_unix_connection(
                lambda: _Back(self._transport), str(self._path)
            )
        except OSError:
            self._transport.abort()
            return
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        assert self._onward is not None
        self._onward.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._onward is not None:
            self._onward.abort()

    def leave(self) -> None:
        """The engine behind it announces that itself."""


class _Back(asyncio.Protocol):
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport.abort()
