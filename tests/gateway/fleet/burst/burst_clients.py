"""Clients of the burst: all with one key, over all gateways, and what each request came to."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from typing import cast

import httpx
from msgspec import Struct

MAX_TOKENS = 20
LEAVES = 0.08
"""Share of the clients of a stream that leave within it."""


class Sent(Struct, frozen=True, kw_only=True):
    """One request. kind: `answered`, `left`, `lost` or the code of its error. used: tokens."""

    name: str
    model: str
    kind: str
    used: int = 0
    message: str = ""


class BurstClients:
    """Send `requests` requests to the models in turn, from several clients at once."""

    def __init__(
        self, urls: Sequence[str], key: str, models: Sequence[str], requests: int, seed: int
    ) -> None:
        self.sent: list[Sent] = []
        self._urls = urls
        self._headers = {"authorization": f"Bearer {key}"}
        self._models = models
        self._left = requests
        self._total = requests
        self._draw = random.Random(seed)

    @property
    def begun(self) -> float:
        """Share of the requests that were sent."""
        return 1 - self._left / self._total

    def kinds(self) -> Counter[tuple[str, str]]:
        """Number of requests by model and kind."""
        return Counter((one.model, one.kind) for one in self.sent)

    async def run(self, clients: int, pause_s: float) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(clients):
                group.create_task(self._client(self._urls[number % len(self._urls)], pause_s))

    async def _client(self, url: str, pause_s: float) -> None:
        """Use a connection for some requests, so that all workers get some."""
        while self._left > 0:
            async with httpx.AsyncClient(base_url=url, headers=self._headers, timeout=60) as client:
                for _ in range(10):
                    if self._left <= 0:
                        return
                    self._left -= 1
                    number = self._total - self._left
                    one = await self._send(client, number, self._models[number % len(self._models)])
                    self.sent.append(one)
                    if one.kind in ("left", "lost"):
                        break
                    await asyncio.sleep(self._draw.uniform(0, 2 * pause_s))

    async def _send(self, client: httpx.AsyncClient, number: int, model: str) -> Sent:
        name, count = f"r{number:05}", self._draw.randint(1, MAX_TOKENS)
        stream = self._draw.random() < 0.5
        leaves = stream and self._draw.random() < LEAVES
        body = {
            "model": model,
            "stream": stream,
            "max_tokens": MAX_TOKENS,
            "messages": [{"role": "user", "content": f"{name} {count}"}],
            **({"stream_options": {"include_usage": True}} if stream else {}),
        }
        try:
            if not stream:
                answer = await client.post("/v1/chat/completions", json=body)
                return _judged(name, model, answer)
            async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    return _judged(name, model, answer)
                return await self._streamed(name, model, answer, leaves=leaves)
        except httpx.TransportError:
            return Sent(name=name, model=model, kind="lost")

    @staticmethod
    async def _streamed(name: str, model: str, answer: httpx.Response, *, leaves: bool) -> Sent:
        used = 0
        async for line in answer.aiter_lines():
            if leaves and line.startswith("data: "):
                return Sent(name=name, model=model, kind="left")
            if line.startswith("data: {"):
                event = json.loads(line.removeprefix("data: "))
                if "error" in event:
                    return Sent(name=name, model=model, kind=event["error"]["code"])
                if usage := cast("dict[str, int] | None", event.get("usage")):
                    used = usage["total_tokens"]
            if line == "data: [DONE]":
                return Sent(name=name, model=model, kind="answered", used=used)
        return Sent(name=name, model=model, kind="lost")


def _judged(name: str, model: str, answer: httpx.Response) -> Sent:
    found = answer.json()
    if answer.status_code == 200:
        used = found["usage"]["total_tokens"]
        return Sent(name=name, model=model, kind="answered", used=used)
    error = found["error"]
    return Sent(name=name, model=model, kind=error["code"], message=error["message"])
