"""Replicas on loopback addresses, and requests to a gateway in front of them."""

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import httpx

from tests.gateway.commanded import SOON_S, Commanded
from tests.stand_ins.provider import Answer, Provider, Received, provider

CHAT = "/v1/chat/completions"
ADMIN = {"authorization": "Bearer key-of-the-operator"}


def asks(text: str = "hi", model: str = "chat", *, stream: bool = False) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": text}], "stream": stream}


async def slowly(request: Received, answer: Answer) -> None:
    """Answer after a moment, so that several requests are in flight at once."""
    await asyncio.sleep(0.01)
    await answer.chat()


class Fleet:
    """Replicas on addresses of their own, all on one port, before a gateway under load."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.replicas: dict[str, Provider] = {}
        self.port = 0

    async def add(self, host: str, tls: ssl.SSLContext | None = None) -> Provider:
        made = await self._stack.enter_async_context(provider(slowly, host, self.port, tls))
        self.port = made.port
        self.replicas[host] = made
        return made

    def targets(self, *hosts: str) -> str:
        return json.dumps([{"targets": [f"{host}:{self.port}" for host in hosts]}])

    def counts(self) -> Counter[str]:
        return Counter({host: len(one.requests) for host, one in self.replicas.items()})


class Stream:
    """Requests that never stop, a few at a time. statuses: of all answers."""

    def __init__(self, up: Commanded) -> None:
        self._client = up.client()
        self.statuses: Counter[int] = Counter()
        self._tasks = [asyncio.create_task(self._ask(number)) for number in range(4)]

    async def _ask(self, number: int) -> None:
        turn = 0
        while True:
            turn += 1
            answer = await self._client.post(CHAT, json=asks(f"{number}.{turn}"))
            self.statuses[answer.status_code] += 1

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.aclose()


@asynccontextmanager
async def load_on(up: Commanded) -> AsyncGenerator[Stream, None]:
    stream = Stream(up)
    try:
        yield stream
    finally:
        await stream.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110  of other processes, which report nothing
            await asyncio.sleep(0.02)


async def ready_says(up: Commanded, client: httpx.AsyncClient, words: str) -> None:
    async with asyncio.timeout(SOON_S):
        while words not in (await client.get("/readyz")).text:  # noqa: ASYNC110  another process
            await asyncio.sleep(0.05)


async def health(client: httpx.AsyncClient) -> dict[str, dict[str, object]]:
    found = (await client.get("/admin/backends", headers=ADMIN)).json()["models"][0]["backends"]
    return {one["replica"]: cast("dict[str, object]", one["health"]) for one in found}
