"""A server on loopback; tests script every byte, delay and close.

    async def script(peer: Peer) -> None:
        request = await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\\r\\n")
        peer.reset()

    async with raw_server(script) as server:
        ...  # talk to server.base_url; look at server.requests and server.connections

The script runs once for each connection, which is closed properly when it returns. `answering`
writes a script in which every request gets a fixed answer. A script that fails, unless its client
disconnected, fails the test.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Literal

from tests.oracle.oracle import ORACLE
from tests.stand_ins.provider import Received

SOON_S = 60.0
"""Seconds to wait for something immediate: enough for a busy machine, finite for a defect."""

Step = bytes | float | Literal["close", "reset"]
"""Send bytes, wait so many seconds, or end the connection."""


class Gone(ConnectionError):
    """The client closed the connection."""


class Peer:
    """The server's end of one connection.

    sent: bytes that the script has handed to the socket.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._reading = asyncio.Lock()
        self.requests: list[Received] = []
        self.sent = 0

    async def request(self) -> Received:
        """Read the next request and a body of its content-length; raises Gone."""
        try:
            async with self._reading:
                head = await self._reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                method, path, _ = lines[0].split(" ")
                fields = (line.partition(": ") for line in lines[1:-2])
                headers = {name.lower(): value for name, _, value in fields}
                body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ConnectionError) as exc:
            raise Gone from exc
        received = Received(method=method, path=path, headers=headers, body=body)
        self.requests.append(received)
        ORACLE.receive(received)
        return received

    async def head(self) -> bytes:
        """Read the next request's raw head, leaving its body unread."""
        async with self._reading:
            return await self._reader.readuntil(b"\r\n\r\n")

    async def send(self, data: bytes) -> None:
        """Write, and wait until the socket has taken most of it."""
        if self._writer.is_closing():
            raise Gone
        self._writer.write(data)
        self.sent += len(data)
        await self._writer.drain()

    async def play(self, *steps: Step) -> None:
        for step in steps:
            match step:
                case bytes():
                    await self.send(step)
                case float() | int():
                    await asyncio.sleep(step)
                case "close":
                    self._writer.close()
                case "reset":
                    self.reset()

    async def gone(self) -> None:
        """Wait until the client has closed its end; raises TimeoutError if it does not.

        For the test as well as for the script, also while the other one reads.
        """
        async with asyncio.timeout(SOON_S), self._reading:
            try:
                while await self._reader.read(65536):
                    pass
            except ConnectionError:
                return

    async def stay(self) -> None:
        """Do nothing until the client leaves."""
        await self.gone()

    async def tunnel(self, port: int) -> None:
        """Forward everything to a port of loopback and back, as a proxy does after CONNECT."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(_copy(self._reader, writer), _copy(reader, self._writer))
        finally:
            writer.close()

    def reset(self) -> None:
        """Close with a RST; unsent bytes are lost."""
        if self._writer.is_closing():
            return
        linger = struct.pack("ii", 1, 0)
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close the connection properly after everything is sent."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (ConnectionError, ssl.SSLError):
            return
        except TimeoutError:  # of `ssl_shutdown_timeout`: the client has not answered close_notify
            return

    @property
    def client_port(self) -> int:
        port: int = self._writer.get_extra_info("peername")[1]
        return port

    @property
    def certificate(self) -> object:
        """Return the client's certificate as ssl.SSLSocket.getpeercert does; `None` without one."""
        return self._writer.get_extra_info("peercert")


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()


Script = Callable[[Peer], Awaitable[None]]


class RawServer:
    """The server as seen by a test. connections: in order of arrival."""

    def __init__(self, script: Script, scheme: str, host: str) -> None:
        self.connections: list[Peer] = []
        self.port = 0
        self._script = script
        self._scheme = scheme
        self._host = host
        self._tasks: set[asyncio.Task[None]] = set()
        self.failures: list[BaseException] = []

    @property
    def base_url(self) -> str:
        return f"{self._scheme}://{self._host}:{self.port}"

    @property
    def requests(self) -> list[Received]:
        """Return every request that was read completely, by connection."""
        return [request for peer in self.connections for request in peer.requests]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition is true; raises TimeoutError if it does not become true."""
        async with asyncio.timeout(SOON_S):
            while not condition():  # noqa: ASYNC110 - any expression; nothing announces it
                await asyncio.sleep(0.005)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle a connection, for asyncio.start_server."""
        peer = Peer(reader, writer)
        self.connections.append(peer)
        task = asyncio.ensure_future(self._serve(peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel running scripts and close every connection."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, peer: Peer) -> None:
        try:
            await self._script(peer)
        except ConnectionError:
            pass
        except Exception as exc:  # noqa: BLE001 - raised again when the server stops
            self.failures.append(exc)
        finally:
            await peer.close()


@asynccontextmanager
async def raw_server(
    script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncGenerator[RawServer, None]:
    """Run `script` for every connection. host: the name of 127.0.0.1 in base_url."""
    server = RawServer(script, "https" if tls else "http", host)
    listener = await asyncio.start_server(
        server.accept,
        "127.0.0.1",
        0,
        ssl=tls,
        ssl_shutdown_timeout=0.5 if tls else None,  # a client may never answer a close_notify
        limit=2**20,
        backlog=1024,
    )
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.stop()
        await listener.wait_closed()
    if server.failures:
        raise server.failures[0]


def answering(*answers: bytes | Sequence[Step]) -> Script:
    """Answer a connection's first request with the first of `answers`, and so on.

    The last one also answers all further requests.
    """

    async def script(peer: Peer) -> None:
        turn = 0
        while True:
            await peer.request()
            answer = answers[min(turn, len(answers) - 1)]
            await peer.play(*([answer] if isinstance(answer, bytes) else answer))
            turn += 1

    return script


def sized(body: bytes, status: str = "200 OK", *fields: str) -> bytes:
    """Return a complete answer with a content-length. fields: further header lines."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def chunked(*chunks: bytes) -> bytes:
    """Return a complete answer in HTTP chunks."""
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"


@contextmanager
def full_backlog() -> Generator[int]:
    """Yield a port with a full queue of unaccepted connections: the next SYN is not answered."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port: int = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port
        for filler in fillers:
            filler.close()
