"""Clients of the chaos run: they send requests continuously, and each knows the right answer."""

import asyncio
import json
import random
import time
from typing import Literal

import httpx
from msgspec import Struct

HANGS_S = 30.0
"""Seconds after which a request counts as hung; its deadline is 20 s."""

HANG_UPS = 0.015
"""Share of the clients that disconnect on purpose."""

Kind = Literal[
    "answered",
    "error frame",
    "hung up",
    "refused",
    "connection lost",
    "hung",
    "corrupt",
    "mixed",
    "falsely complete",
]


class Outcome(Struct, frozen=True, kw_only=True):
    """begun, ended: monotonic seconds. attempts: as the gateway reports; 0 if it reports none."""

    kind: Kind
    begun: float
    ended: float
    status: int = 0
    code: str = ""
    attempts: int = 0
    request_id: str = ""


class Fleet:
    """Runs `clients` concurrent clients until `stop`."""

    def __init__(self, url: str, seed: int, clients: int, pause_s: float) -> None:
        self._url = url
        self._draw = random.Random(seed)
        self._clients = clients
        self._pause_s = pause_s
        self._number = 0
        self.outcomes: list[Outcome] = []
        self._over = False

    def stop(self) -> None:
        self._over = True

    async def run(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(self._clients)))

    async def _client(self) -> None:
        """After a disconnect or a cut, the client continues with a new pool: httpx may lose the
        slot of a connection that was cancelled while it was being opened."""
        limits = httpx.Limits(max_connections=1)
        while not self._over:
            async with httpx.AsyncClient(
                base_url=self._url, limits=limits, timeout=HANGS_S
            ) as client:
                fine = True
                while fine and not self._over:
                    outcome = await self._ask(client)
                    self.outcomes.append(outcome)
                    fine = outcome.kind in ("answered", "refused")
                    await asyncio.sleep(self._draw.uniform(0, 2 * self._pause_s))

    async def _ask(self, client: httpx.AsyncClient) -> Outcome:
        self._number += 1
        name, count = f"r{self._number}", self._draw.randint(1, 12)
        stream, leaves = self._draw.random() < 0.5, self._draw.random() < HANG_UPS
        body = {
            "model": "chat",
            "stream": stream,
            "messages": [{"role": "user", "content": f"{name} {count}"}],
        }
        asking = client.build_request("POST", "/v1/chat/completions", json=body)
        begun = time.monotonic()
        seen = _Seen(name, count)
        try:
            async with asyncio.timeout(self._draw.uniform(0, 0.2) if leaves else HANGS_S):
                kind = await seen.see(client, asking, stream=stream)
        except (TimeoutError, httpx.TimeoutException):
            kind = "hung up" if leaves else "hung"
        except httpx.TransportError:
            kind = "connection lost"
        return seen.outcome(kind, begun, time.monotonic())


class _Seen:
    """What one client has received of its answer."""

    def __init__(self, name: str, count: int) -> None:
        self._words = [f"{name}:{place} " for place in range(count)]
        self._name = name
        self._status = 0
        self._code = ""
        self._headers: httpx.Headers | dict[str, str] = {}

    def outcome(self, kind: Kind, begun: float, ended: float) -> Outcome:
        return Outcome(
            kind=kind,
            begun=begun,
            ended=ended,
            status=self._status,
            code=self._code,
            attempts=int(self._headers.get("x-gateway-attempts", "0")),
            request_id=self._headers.get("x-gateway-request-id", ""),
        )

    async def see(self, client: httpx.AsyncClient, asking: httpx.Request, *, stream: bool) -> Kind:
        answer = await client.send(asking, stream=True)
        try:
            self._status, self._headers = answer.status_code, answer.headers
            if answer.status_code == 200 and stream:
                return await self._streamed(answer)
            await answer.aread()
        finally:
            await answer.aclose()
        try:
            found = answer.json()
            if answer.status_code != 200:
                self._code = str(found["error"]["code"])
                return "refused"
            return self._judged(found["choices"][0]["message"]["content"], whole=True)
        except (ValueError, KeyError, IndexError, TypeError):
            return "corrupt"

    async def _streamed(self, answer: httpx.Response) -> Kind:
        text, done = "", False
        async for line in answer.aiter_lines():
            if not line.startswith("data: "):
                continue
            data = line.removeprefix("data: ")
            if done:
                return "corrupt"
            if data == "[DONE]":
                done = True
                continue
            try:
                event = json.loads(data)
                if "error" in event:
                    self._code = str(event["error"]["code"])
                    broken = self._judged(text, whole=False)
                    return "error frame" if broken == "answered" else broken
                text += event["choices"][0]["delta"].get("content") or ""
            except (ValueError, KeyError, IndexError, TypeError):
                return "corrupt"
        return self._judged(text, whole=True) if done else "connection lost"

    def _judged(self, text: str, *, whole: bool) -> Kind:
        right = "".join(self._words)
        if text == right or (not whole and right.startswith(text)):
            return "answered"
        if any(not word.startswith(f"{self._name}:") for word in text.split()):
            return "mixed"
        return "falsely complete" if right.startswith(text) else "corrupt"
