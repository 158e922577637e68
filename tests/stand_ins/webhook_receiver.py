"""A receiver of webhooks on loopback, which answers as a test scripts it."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

from msgspec import Struct

PATIENCE_S = 60.0


class Event(Struct, frozen=True, kw_only=True):
    """One request as received. answered: with this status; 0 if it was not answered."""

    path: str
    headers: dict[str, str]
    body: bytes
    answered: int

    @property
    def json(self) -> dict[str, object]:
        return cast("dict[str, object]", json.loads(self.body))


class Receiver:
    """events: all, in order. script: statuses of the next answers, 0 never answers; then 204."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.script: list[int] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/budgets?source=gateway"

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something is true of what was received."""
        async with asyncio.timeout(PATIENCE_S):
            while not true():  # noqa: ASYNC110  no event to wait for
                await asyncio.sleep(0.01)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.split("\r\n")[:-2]
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in lines)
            }
            body = await reader.readexactly(int(headers["content-length"]))
            status = self.script.pop(0) if self.script else 204
            path = first.split(" ")[1]
            self.events.append(Event(path=path, headers=headers, body=body, answered=status))
            if status == 0:
                await reader.read()  # until the sender gives up
            else:
                writer.write(b"HTTP/1.1 %d x\r\ncontent-length: 0\r\n\r\n" % status)
                await writer.drain()
        writer.close()


def verified(event: Event, secret: str, at: float, tolerance_s: float = 300.0) -> bool:
    """Verify as a receiver does that has read docs/budgets.md and nothing else."""
    parts = dict(part.split("=", 1) for part in event.headers["x-strowger-signature"].split(","))
    expected = hmac.new(
        secret.encode(), parts["t"].encode() + b"." + event.body, hashlib.sha256
    ).hexdigest()
    recent = abs(at - int(parts["t"])) <= tolerance_s
    return hmac.compare_digest(expected, parts["v1"]) and recent


@asynccontextmanager
async def receiver() -> AsyncGenerator[Receiver, None]:
    found = Receiver()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
