"""Clients that count every failure of a connection, and gateways that take each other's place."""

import asyncio
import json
import os
import random
import re
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

from tests.gateway.commanded import SOON_S, Commanded
from tests.stand_ins.provider import Answer, Received

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


async def speaks(request: Received, answer: Answer) -> None:
    """A provider whose streams take half a second, and longer for the user `patient`."""
    if not request.json.get("stream"):
        await answer.chat()
        return
    await answer.begin_stream()
    for _ in range(30 if request.json.get("user") else 5):
        await answer.text("word ")
        await asyncio.sleep(0.1)
    await answer.end_stream()


def request_of(body: Mapping[str, object], key: str) -> bytes:
    data = json.dumps(body).encode()
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer %b\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % (key.encode(), len(data))
    ) + data


class Client(asyncio.Protocol):
    """One connection. `exchange` returns what became of a request."""

    def __init__(self) -> None:
        self.usable = False
        self._transport: asyncio.Transport
        self._data = b""
        self._waiting: asyncio.Future[str] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.usable = True

    async def exchange(self, body: Mapping[str, object], key: str = "k") -> str:
        """`answered`, or how the request failed."""
        self._data = b""
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request_of(body, key))
        return await self._waiting

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, _, rest = self._data.partition(b"\r\n\r\n")
        found = re.search(rb"(?i)content-length: (\d+)", head)
        whole = len(rest) >= int(found[1]) if found else rest.endswith(b"0\r\n\r\n")
        if whole and self._waiting is not None:
            status = head[9:12].decode()
            if b"connection: close" in head.lower():
                self.close()
            good = found or b"[DONE]" in rest
            self._end("answered" if status == "200" and good else f"status {status}")

    def eof_received(self) -> None:
        self.usable = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.usable = False
        if exc is not None:
            self._end(f"reset after {len(self._data)} bytes")
        self._end(f"lost after {len(self._data)} bytes")

    def close(self) -> None:
        self.usable = False
        self._transport.close()

    def _end(self, outcome: str) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)


class Load:
    """So many connections that are kept open, and so many requests per second over them.

    As a pool does, a request opens a connection if the gateway has closed the one that it would
    use. Nothing is tried again. outcomes: of requests, and of connections that failed.
    """

    def __init__(
        self, address: tuple[str, int] | str, connections: int, rate: float, key: str = "k"
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self.slowest_s = 0.0
        self._address = address
        self._key = key
        self._clients: list[Client | None] = [None] * connections
        self._pause_s = 1 / rate
        self._running: set[asyncio.Task[None]] = set()
        self._busy: set[int] = set()
        self._random = random.Random(7)
        self._sending: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open all connections, and begin to send."""
        for place in range(len(self._clients)):
            self._clients[place] = await self._connected()
        self._sending = asyncio.create_task(self._send())

    async def stop(self) -> None:
        """Return when every answer is there; close the connections."""
        if self._sending is not None:
            self._sending.cancel()
        while self._running:
            await asyncio.wait(tuple(self._running))
        for one in self._clients:
            if one is not None:
                one.close()

    async def sent(self, more: int) -> None:
        """Return when so many more requests have ended."""
        wanted = self.outcomes.total() + more
        async with asyncio.timeout(SOON_S):
            while self.outcomes.total() < wanted:  # noqa: ASYNC110  a count of many tasks
                await asyncio.sleep(0.02)

    async def _connected(self) -> Client | None:
        loop = asyncio.get_running_loop()
        try:
            if isinstance(self._address, str):
                _, client = await loop.create_unix_connection(Client, self._address)
            else:
                _, client = await loop.create_connection(Client, *self._address)
        except OSError as exc:
            self.outcomes[type(exc).__name__] += 1
            return None
        return client

    async def _send(self) -> None:
        count = 0
        while True:
            count += 1
            place = self._random.randrange(len(self._clients))
            if place not in self._busy:
                self._busy.add(place)
                task = asyncio.create_task(self._one(place, count))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            await asyncio.sleep(self._pause_s)

    async def _one(self, place: int, count: int) -> None:
        began = asyncio.get_running_loop().time()
        client = self._clients[place]
        if client is None or not client.usable:
            client = self._clients[place] = await self._connected()
        if client is not None:
            body: dict[str, object] = {**CHAT, "stream": count % 4 == 0}
            if count % 16 == 0:
                body["user"] = "patient"
            self.outcomes[await client.exchange(body, self._key)] += 1
            if not body["stream"]:
                took = asyncio.get_running_loop().time() - began
                self.slowest_s = max(self.slowest_s, took)
        self._busy.discard(place)


def runs(pid: int) -> bool:
    """Return whether a process has not ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> None:
    """Return when a process has ended."""
    await until(lambda: not runs(pid))


class Line:
    """A gateway and those that have taken its place. pid: of the newest."""

    def __init__(self, up: Commanded) -> None:
        self.up = up
        self.pid = up.process.pid

    async def hand_over(self, *, until_gone: bool = False) -> int:
        """Have a new gateway take over; return the process id of the old one."""
        since, old = len(self.up.lines), self.pid
        os.kill(old, signal.SIGUSR2)
        await until(lambda: self._successor(since) or not runs(old))
        self.pid = self._successor(since)
        assert self.pid, self.up.lines[since:]
        if until_gone:
            await gone(old)
        return old

    def _successor(self, since: int) -> int:
        """The process that takes over, by the log; 0 before it does."""
        found = [re.search(r"process (\d+) takes over", one) for one in self.up.lines[since:]]
        return next((int(one[1]) for one in found if one is not None), 0)


@asynccontextmanager
async def line_of(up: Commanded) -> AsyncGenerator[Line, None]:
    """End the newest gateway with the block: it has the pipes of the first."""
    line = Line(up)
    try:
        yield line
    finally:
        with suppress(ProcessLookupError):
            os.kill(line.pid, signal.SIGTERM)
        await gone(line.pid)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110  it is another process's doing
            await asyncio.sleep(0.02)
