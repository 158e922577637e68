"""A client's connection that keeps to no rule of HTTP, and reads each answer exactly to its end."""

import asyncio
import socket
import ssl
from contextlib import suppress
from itertools import pairwise
from typing import Final

from msgspec import Struct

from tests.gateway.server.http1.secured import SecuredWriter, secured

PATIENCE_S: Final = 30.0
"""For whatever comes within milliseconds; a busy machine gets more."""

NO_BODY: Final = (204, 304)
PROBE: Final = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Reply(Struct, frozen=True, kw_only=True):
    """One answer. lines: its header lines. framing: what ended it; chunks: as they were cut."""

    status: int
    lines: tuple[tuple[str, str], ...]
    body: bytes = b""
    framing: str = "none"
    chunks: tuple[bytes, ...] = ()

    def __getitem__(self, name: str) -> str:
        """The value of a header, or an empty text. Raises AssertionError if there are two."""
        found = [value for other, value in self.lines if other == name]
        assert len(found) < 2, f"{name} is there {len(found)} times"
        return found[0] if found else ""


class Wire:
    """One connection to the gateway."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter | SecuredWriter
    ) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, *pieces: bytes) -> None:
        """Each piece by itself: the gateway gets the time to read it before the next one goes."""
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            for _ in range(3):
                await asyncio.sleep(0)

    async def reply(self, method: str = "GET") -> Reply:
        """The next answer, to a request with this method; interim ones (100) count, too."""
        async with asyncio.timeout(PATIENCE_S):
            first, *rest = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
            version, status = first.decode().split(" ")[:2]
            assert version == "HTTP/1.1"
            pairs = (line.decode("latin-1").partition(": ") for line in rest)
            head = Reply(
                status=int(status),
                lines=tuple((name.lower(), value) for name, _, value in pairs),
            )
            if method == "HEAD" or head.status < 200 or head.status in NO_BODY:
                return head
            return await self._with_body(head)

    async def replies(self, count: int) -> list[Reply]:
        return [await self.reply() for _ in range(count)]

    async def rest(self) -> bytes:
        """Everything until the gateway closes; what a reset cuts off does not count."""
        read = b""
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionError):
                while piece := await self._reader.read(65_536):
                    read += piece
        self._writer.close()
        return read

    async def ended(self) -> bool:
        """Whether the gateway closes the connection, and sends nothing more before."""
        return await self.rest() == b""

    async def kept(self) -> bool:
        """Whether another request on the connection is answered."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await self.send(PROBE)
            return (await self.reply()).status == 200
        return False

    async def silent(self, seconds: float = 0.05) -> bool:
        """Whether the gateway says nothing for so long, and does not close."""
        try:
            read = await asyncio.wait_for(self._reader.read(1), seconds)
        except TimeoutError:
            return True
        raise AssertionError(f"expected silence, not {read!r}")

    async def take(self, size: int) -> bytes:
        """So many bytes of whatever comes."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._reader.readexactly(size)

    async def until(self, mark: bytes) -> bytes:
        """Everything up to and including this mark."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._reader.readuntil(mark)

    def end(self) -> None:
        """Close our side alone: the gateway may still answer."""
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()

    def reset(self) -> None:
        """Leave with a reset, as a machine does that was switched off in between."""
        self._writer.transport.abort()

    async def _with_body(self, head: Reply) -> Reply:
        lines, status = head.lines, head.status
        if head["transfer-encoding"]:
            assert head["transfer-encoding"] == "chunked"
            assert not head["content-length"]
            chunks = await self._chunks()
            body = b"".join(chunks)
            return Reply(
                status=status, lines=lines, body=body, framing="chunked", chunks=tuple(chunks)
            )
        if head["content-length"]:
            body = await self._reader.readexactly(int(head["content-length"]))
            return Reply(status=status, lines=lines, body=body, framing="length")
        return Reply(status=status, lines=lines, body=await self._reader.read(), framing="close")

    async def _chunks(self) -> list[bytes]:
        found: list[bytes] = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            found.append(await self._reader.readexactly(size))
            assert await self._reader.readexactly(2) == b"\r\n"
        assert await self._reader.readexactly(2) == b"\r\n"
        return found


async def dial(
    url: str,
    *,
    narrow: bool = False,
    context: ssl.SSLContext | None = None,
    source: str = "",
) -> Wire:
    """Connect to a gateway, over TLS with a context.

    narrow: a client that takes in hardly anything it does not read. source: its address.
    """
    host, _, port = url.partition("://")[2].partition(":")
    sock = socket.socket()
    if narrow:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    if source:
        sock.bind((source, 0))
    try:
        await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
    except OSError:
        sock.close()
        raise
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    limit = 1024 if narrow else 1 << 20
    if context is not None:
        return Wire(*await secured(sock, context, limit))
    return Wire(*await asyncio.open_connection(sock=sock, limit=limit))


def cut(data: bytes, *at: int) -> list[bytes]:
    """The data in pieces that begin at these places."""
    return [data[start:stop] for start, stop in pairwise((0, *at, len(data)))]


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    """The chunks, the last one and the trailers, which are whole lines."""
    coded = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in chunks)
    return coded + b"0\r\n" + trailers + b"\r\n"
