"""The other client: it sends requests continuously, and what it observes is the result."""

import asyncio
import json
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Final

from msgspec import Struct

from benchmarks.isolation.requests import CHAT, Answer, send
from benchmarks.isolation.rows import PROMISED_S, Row

LONGEST_S: Final = 60.0
"""Seconds after which a request of the victim is given up."""
_PAUSE_S: Final = 0.05
_KEY: Final = "victim-key"
_RESPONSES: Final = "POST /v1/responses"


class Seen(Struct, kw_only=True):
    """What the victim observed during one attack. Seconds; MB.

    moved: backends whose circuit is open, or that cool down, after the attack.
    """

    longest_s: float = 0.0
    health_s: float = 0.0
    gateway_mb: float = 0.0
    engine_mb: float = 0.0
    backends: Counter[str]
    attacker: str = ""
    tracebacks: int = 0
    moved: tuple[str, ...] = ()

    def isolated(self, row: Row) -> bool:
        """True if the victim was not affected and memory stayed within the limit."""
        return (
            self.longest_s <= row.longest_s
            and self.health_s <= PROMISED_S
            and max(self.gateway_mb, self.engine_mb) <= row.megabytes
            and set(self.backends) == {row.backend}
            and not self.tracebacks
            and not self.moved
        )


class Victim:
    """Sends one request at a time. Call `prepare` first."""

    def __init__(self, port: int, row: Row) -> None:
        self._port = port
        self._row = row
        self._line = f"POST {CHAT}"
        self._body = row.victim

    async def prepare(self) -> None:
        """Warm the gateway up, and store what later requests continue."""
        for _ in range(20):
            await send(self._port, _KEY, self._row.victim)
        if self._row.stores:
            body = {"model": "quick", "input": "hi", "store": True}
            first = await send(self._port, _KEY, json.dumps(body).encode(), _RESPONSES)
            body["previous_response_id"] = json.loads(first.body)["id"]
            self._line, self._body = _RESPONSES, json.dumps(body).encode()

    async def send_until(self, done: threading.Event, seen: Seen) -> None:
        while not done.is_set():
            started = time.perf_counter()
            try:
                answer = await asyncio.wait_for(
                    send(self._port, _KEY, self._body, self._line), LONGEST_S
                )
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as exc:
                seen.backends[type(exc).__name__] += 1
                took = time.perf_counter() - started
            else:
                seen.backends[_answered_by(answer)] += 1
                took = time.perf_counter() - started
                if self._row.first_token and answer.first_s:
                    took = answer.first_s
            seen.longest_s = max(seen.longest_s, took)
            await asyncio.sleep(_PAUSE_S)


def _answered_by(answer: Answer) -> str:
    if answer.status != 200:
        return str(answer.status)
    return answer.headers.get("x-gateway-backend", "(no backend)")


async def watch_health(port: int, done: threading.Event, seen: Seen) -> None:
    """Send `GET /healthz` continuously."""
    while not done.is_set():
        started = time.perf_counter()
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            await asyncio.wait_for(send(port, "", b"", "GET /healthz"), LONGEST_S)
        seen.health_s = max(seen.health_s, time.perf_counter() - started)
        await asyncio.sleep(_PAUSE_S)


async def moved_circuits(port: int) -> tuple[str, ...]:
    """Return the backends that accept no attempts now, by the gateway's metrics."""
    answer = await send(port, "", b"", "GET /metrics")
    return tuple(
        line.removeprefix("strowger_backend_available").removesuffix(" 0.0")
        for line in answer.body.decode().splitlines()
        if line.startswith("strowger_backend_available{") and line.endswith(" 0.0")
    )
