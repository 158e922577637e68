"""A client's connection over TLS as a reader and a writer, which may close one side or reset.

asyncio's own streams can do neither over TLS.
"""

import asyncio
import socket
import ssl
from contextlib import suppress

READ = 16 * 1024


class SecuredWriter:
    """What a Wire calls on asyncio's StreamWriter, encrypted."""

    def __init__(self, tcp: asyncio.StreamWriter, tls: ssl.SSLObject, out: ssl.MemoryBIO) -> None:
        self._tcp, self._tls, self._out = tcp, tls, out
        self.pump: asyncio.Task[None] | None = None

    @property
    def transport(self) -> asyncio.WriteTransport:
        """The socket's."""
        return self._tcp.transport

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while len(view):
            view = view[self._tls.write(view) :]
        self.flush()

    async def drain(self) -> None:
        await self._tcp.drain()

    def write_eof(self) -> None:
        """Close this side: close_notify, and the end of the stream of bytes."""
        with suppress(ssl.SSLError):
            self._tls.unwrap()
        self.flush()
        self._tcp.write_eof()

    def close(self) -> None:
        self._tcp.close()
        if self.pump is not None:
            self.pump.cancel()

    def flush(self) -> None:
        if data := self._out.read():
            self._tcp.write(data)


class Flow(asyncio.Transport):
    """Stops the decryption while the reader has enough. wanted: set while it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = asyncio.Event()
        self.wanted.set()

    def pause_reading(self) -> None:
        self.wanted.clear()

    def resume_reading(self) -> None:
        self.wanted.set()


async def secured(
    sock: socket.socket, context: ssl.SSLContext, limit: int, name: str = "127.0.0.1"
) -> tuple[asyncio.StreamReader, SecuredWriter]:
    """Shake hands on a connected socket. Raises ssl.SSLError."""
    raw, tcp = await asyncio.open_connection(sock=sock, limit=limit)
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(into, out, server_hostname=name)
    writer = SecuredWriter(tcp, tls, out)
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            writer.flush()
            if not (data := await raw.read(READ)):
                tcp.close()
                raise ConnectionResetError("closed during the handshake") from None
            into.write(data)
        except ssl.SSLError:
            writer.flush()  # the alert
            tcp.close()
            raise
    writer.flush()
    reader, flow = asyncio.StreamReader(limit), Flow()
    reader.set_transport(flow)
    writer.pump = asyncio.create_task(_pump(raw, tls, into, reader, flow))
    return reader, writer


async def _pump(
    raw: asyncio.StreamReader,
    tls: ssl.SSLObject,
    into: ssl.MemoryBIO,
    reader: asyncio.StreamReader,
    flow: Flow,
) -> None:
    """Decrypt into the reader until either side of the socket ends."""
    try:
        while True:
            try:
                while clear := tls.read(READ):
                    reader.feed_data(clear)
                break
            except ssl.SSLZeroReturnError:
                break  # close_notify, after our own
            except ssl.SSLWantReadError:
                pass
            await flow.wanted.wait()
            if not (data := await raw.read(READ)):
                raise ConnectionResetError("the server closed without close_notify")
            into.write(data)
    except (ConnectionError, ssl.SSLError) as exc:
        reader.set_exception(exc)
        return
    reader.feed_eof()
