"""A gateway in a terminal that serves steadily while it is stopped, started and killed.

Its requests have three keys: `open`, whose budget is never used up; `early`, whose budget is used
up within the first seconds; and `drip`, whose budget is used up about half way.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import httpx
from msgspec import Struct

from tests.gateway.cli.terminals.screen import OnScreen, serving_on_screen
from tests.gateway.commanded import OPERATOR, importer_of
from tests.gateway.governance.limits.test_limited_requests import HELLO
from tests.gateway.serving import one_model

COST_USD, RESERVED_USD = 13, 44
"""Of one request; see PRICES of test_budgeted_requests."""

EARLY_USD = 100
STYLES = ("console", "auto", "json")
Event = Literal["importer", "stop", "Ctrl-C", "hang up", "kill", "kill both", "worker"]
EVENTS: tuple[Event, ...] = (
    "importer",
    "stop",
    "kill",
    "importer",
    "Ctrl-C",
    "worker",
    "kill both",
    "hang up",
)
"""importer, kill, worker: kill -9 of that process; the gateway starts again after the others."""


class Sent(Struct, frozen=True, kw_only=True):
    """A complete answer. at: its end, monotonic seconds."""

    name: str
    key: str
    status: int
    at: float


class Soak:
    """Runs for `seconds`, with an event every `pause_s`.

    sent: what clients got. interrupted: requests without a complete answer. kills: of processes
    that serve, monotonic seconds. screens: what the terminals showed.
    """

    def __init__(
        self, config: Path, url: str, seconds: float, *, pause_s: float, seed: int
    ) -> None:
        """url: of the provider."""
        self.sent: list[Sent] = []
        self.interrupted = 0
        self.kills: list[float] = []
        self.events: Counter[str] = Counter()
        self.starts = 0
        self.screens: list[str] = []
        self.drip_usd = COST_USD * max(4, round(seconds))
        self._config = config
        self._url = url
        self._seconds = seconds
        self._pause_s = pause_s
        self._draw = random.Random(seed)
        self._up: OnScreen | None = None
        self._serving = asyncio.Event()

    async def run(self) -> None:
        ends = time.monotonic() + self._seconds
        clients = [asyncio.create_task(self._send(key, every)) for key, every in RATES]
        try:
            number = 0
            while time.monotonic() < ends:
                number = await self._one_start(ends, number)
        finally:
            for client in clients:
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)

    def text(self) -> str:
        """The configuration; the log format changes from start to start."""
        keys = ", ".join(
            f"{{name: {key}, key: {secret(key)}}}" for key in ("open", "early", "drip")
        )
        usd = {"open": 10**9, "early": EARLY_USD, "drip": self.drip_usd}
        budgets = "".join(
            f"  - {{name: of-{key}, who: {{key: {key}}}, usd: {most}, per: total}}\n"
            for key, most in usd.items()
        )
        more = (
            f"server: {{drain_delay_s: 0}}\n"
            f"auth: {{mode: keys, admin_key: key-of-the-operator, metrics: open, keys: [{keys}]}}\n"
            f"logging: {{format: {STYLES[self.starts % len(STYLES)]}}}\n"
            f"prices: [{{match: remote/*, input: 1000000, output: 2000000}}]\nbudgets:\n{budgets}"
        )
        return one_model(self._url, more)

    async def _one_start(self, ends: float, number: int) -> int:
        """Serve until an event ends the gateway, or the time is over; number: of the next event."""
        workers = ("--workers", "2") if self.starts % 2 else ()
        async with AsyncExitStack() as stack:
            up = await stack.enter_async_context(
                serving_on_screen(self._config, self.text(), *workers)
            )
            self.starts += 1
            self._up = up
            self._serving.set()
            over = False
            while not over:
                await asyncio.sleep(self._pause_s * self._draw.uniform(0.5, 1.5))
                if time.monotonic() >= ends:
                    over = await self._happen("stop", up)
                else:
                    over = await self._happen(EVENTS[number % len(EVENTS)], up)
                    number += 1
            assert await up.exits() in (0, -signal.SIGKILL)
            self.screens.append(up.screen.shown)
        return number

    async def _happen(self, event: Event, up: OnScreen) -> bool:
        """Let it happen; True if the gateway ends."""
        self.events[event] += 1
        importer = importer_of(up.process.pid)
        if event == "worker":
            async with up.client() as client:
                pid = (await client.get("/healthz", headers=OPERATOR)).json()["pid"]
            if pid == up.process.pid:
                return False
            self.kills.append(time.monotonic())
            os.kill(pid, signal.SIGKILL)
            return False
        if event in ("importer", "kill both") and importer is not None:
            os.kill(importer, signal.SIGKILL)
        if event == "importer":
            return False
        self._serving.clear()
        if event == "stop":
            up.process.terminate()
        elif event == "Ctrl-C":
            up.screen.type(b"\x03")
        elif event == "hang up":
            up.screen.hang_up()
        else:
            self.kills.append(time.monotonic())
            up.process.kill()
        return True

    async def _send(self, key: str, every_s: float) -> None:
        """Send requests, every other one streamed, each after the one before it."""
        number = 0
        while True:
            await self._serving.wait()
            assert self._up is not None
            async with self._up.client(authorization=f"Bearer {secret(key)}") as client:
                while self._serving.is_set():
                    number += 1
                    try:
                        name, status = await answered(client, stream=number % 2 == 0)
                    except httpx.TransportError:
                        self.interrupted += 1
                        break
                    self.sent.append(Sent(name=name, key=key, status=status, at=time.monotonic()))
                    await asyncio.sleep(every_s)
            await asyncio.sleep(0.05)


RATES = (("open", 0.1), ("open", 0.2), ("early", 0.5), ("drip", 0.5))
"""Keys of the clients, and the seconds between two requests of each."""


def secret(key: str) -> str:
    return f"key-of-{key}-00000000"


async def answered(client: httpx.AsyncClient, *, stream: bool) -> tuple[str, int]:
    """The id and the status of a request whose answer is complete. Raises httpx.TransportError."""
    answer = await client.post("/v1/chat/completions", json={**HELLO, "stream": stream})
    if stream and answer.status_code == 200 and not answer.text.rstrip().endswith("[DONE]"):
        raise httpx.ReadError("the stream broke off")
    return answer.headers["x-gateway-request-id"], answer.status_code
