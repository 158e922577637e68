"""The event loop of the serving processes: uvloop's, with look-ups of names that never queue.

What uses a library's client resolves on the loop: httpx, Redis's client, asyncio.open_connection.
uvloop looks up two names at a time, in the threads of its file system calls, so that two names of a
DNS server that does not answer would stop all of them, and numbers as well.
"""

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from strowger_gateway.gateway.platform.names.connecting import connect_to, interleaved
from strowger_gateway.gateway.platform.names.look_up import number
from strowger_gateway.gateway.platform.names.names import NAMES, Names

if TYPE_CHECKING or sys.platform == "win32":
    from asyncio import SelectorEventLoop as _Loop
else:
    from uvloop import Loop as _Loop


class NamesLoop(_Loop):
    """See above. What asks for a family, a protocol or flags is left to the loop's own resolver."""

    def __init__(self, names: Names = NAMES) -> None:
        super().__init__()
        self._names = names

    async def getaddrinfo(  # pyright: ignore[reportIncompatibleMethodOverride]  typeshed's is wider
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[Any, Any, int, str, Any]]:
        """See asyncio. Answers are those of gateway/platform/names, for streams."""
        if isinstance(host, bytes):  # as anyio, and so httpx, passes it
            host = host.decode("ascii", "surrogateescape")
        stream = type in (0, socket.SOCK_STREAM) and proto in (0, socket.IPPROTO_TCP) and not flags
        if not stream or not host or not isinstance(port, int):
            return await super().getaddrinfo(
                host, port, family=family, type=type, proto=proto, flags=flags
            )
        found = [
            (socket.AddressFamily(kind), socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)
            for kind, address in await self._names.addresses(host, port)
            if family in (0, kind)
        ]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no address of this family")
        return found

    async def create_connection(  # pyright: ignore[reportIncompatibleMethodOverride]  as above
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """See asyncio. A name's addresses are tried as in gateway/platform/names/connecting.py."""
        options = {name: value for name, value in options.items() if value is not None}
        plain = options.keys() <= {"ssl", "server_hostname", "ssl_handshake_timeout"}
        if not plain or not host or not isinstance(port, int) or number(host) is not None:
            return await super().create_connection(protocol_factory, host, port, **options)  # pyright: ignore
        sock = await connect_to(interleaved(await self._names.addresses(host, port)))
        if options.get("ssl") and options.get("server_hostname") is None:
            options["server_hostname"] = host
        return await super().create_connection(protocol_factory, sock=sock, **options)
