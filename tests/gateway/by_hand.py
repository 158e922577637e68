"""A client's connection, written to by hand."""

import asyncio
import socket
from contextlib import suppress


def head(more: str, path: str = "/v1/chat/completions") -> bytes:
    kind = "content-type: application/json\r\n"
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{kind}{more}\r\n".encode()


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def say(self, *pieces: bytes, pause: float = 0.02) -> None:
        """Each in a packet of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(pause)

    async def receives(self) -> tuple[int, bytes]:
        """The status and body of the next answer; of a stream, nothing after its head."""
        status, _, body = await self.receives_all()
        return status, body

    async def receives_all(self) -> tuple[int, list[str], bytes]:
        """The same, with the lines of the head, in small letters."""
        async with asyncio.timeout(60):
            lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            length = [line.split(": ")[1] for line in lines if line.startswith("content-length")]
            body = await self._reader.readexactly(int(length[0])) if length else b""
        return int(lines[0].split(" ")[1]), lines, body

    async def takes(self, size: int) -> None:
        """So many bytes of whatever comes."""
        async with asyncio.timeout(60):
            await self._reader.readexactly(size)

    async def over(self) -> bool:
        """Whether the other side closes the connection, or resets it."""
        left = b""
        async with asyncio.timeout(60):
            with suppress(ConnectionResetError):
                left = await self._reader.read()
        self.writer.close()
        return left == b""


async def connect(url: str) -> Client:
    """url: the gateway's."""
    host, _, port = url.removeprefix("http://").partition(":")
    return Client(*await asyncio.open_connection(host, int(port)))


async def connect_narrow(url: str) -> Client:
    """A client that takes up hardly anything it does not read."""
    host, _, port = url.removeprefix("http://").partition(":")
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, (host, int(port)))
    return Client(*await asyncio.open_connection(sock=narrow, limit=1024))
