"""A rolling update under load: processes in place of pods, with the probes and signals of pods.

STROWGER_ROLLING is the number of requests of the large run (`make nightly-rolling`).
"""

import asyncio
import json
import os
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.deploy.balancer import Balancer, Target
from tests.gateway.commanded import Commanded
from tests.gateway.forked_commands import forked
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

LARGE = int(os.environ.get("STROWGER_ROLLING", "100000"))
CLIENTS = 16
CONFIG = """
server: {{drain_delay_s: 1, drain_timeout_s: 20}}
store: {{url: "sqlite:///{folder}/strowger.db"}}
providers: [{{name: one, adapter: openai, base_url: "{url}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: one, model: m}}]}}]
"""


class Load:
    """Clients that send requests, every second one streamed, until told to stop."""

    def __init__(self, port: int, pause_s: float) -> None:
        """pause_s: of a client between two requests."""
        self.outcomes: Counter[str] = Counter()
        self.more = True
        self._port = port
        self._pause_s = pause_s

    @property
    def sent(self) -> int:
        return self.outcomes.total()

    async def client(self) -> None:
        """Use a connection until the gateway ends it, as clients with a pool do."""
        while self.more:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            kept = True
            while kept and self.more:
                outcome, kept = await _request(reader, writer, stream=self.sent % 2 == 1)
                self.outcomes[outcome] += 1
                await asyncio.sleep(self._pause_s)
            writer.close()

    async def until(self, requests: int) -> None:
        while self.sent < requests:  # noqa: ASYNC110  a count of many tasks
            await asyncio.sleep(0.05)


async def _request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, stream: bool
) -> tuple[str, bool]:
    """`answered`, or how the request failed; and whether the connection takes another one."""
    messages = [{"role": "user", "content": "hi"}]
    body = json.dumps({"model": "chat", "stream": stream, "messages": messages}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
    head += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    try:
        writer.write(head + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = [x for x in answer.lower().split(b"\r\n") if x.startswith(b"content-length:")]
        if length:
            text = await reader.readexactly(int(length[0].partition(b":")[2]))
        else:
            text = await reader.readuntil(b"\r\n0\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError) as exc:
        return f"lost: {exc!r}", False
    kept = b"connection: close" not in answer.lower()
    if b" 200 " not in answer[:20]:
        return f"refused: {answer[:40]!r} {text[:200]!r}", kept
    whole = b"data: [DONE]" in text if stream else b'"hello"' in text
    return "answered" if whole else f"cut: {text[-200:]!r}", kept


async def _rolling(
    folder: Path, requests: int, gateways: int, rounds: int, pause_s: float = 0.0
) -> Counter[str]:
    """Replace every gateway, `rounds` times, at even shares of the requests."""
    balancer, up = Balancer(), list[tuple[Target, Commanded, AsyncExitStack]]()
    async with AsyncExitStack() as stack:
        backend = await stack.enter_async_context(provider())

        async def start(number: int) -> None:
            mine = await stack.enter_async_context(AsyncExitStack())
            place = folder / str(number)
            place.mkdir()
            text = CONFIG.format(url=backend.base_url, folder=place)
            one = await mine.enter_async_context(forked(place / "config.yaml", text))
            target = Target(url=one.url)
            balancer.targets.append(target)
            up.append((target, one, mine))
            while not target.ready:  # noqa: ASYNC110  the probes set it
                await asyncio.sleep(0.02)

        probing = asyncio.create_task(balancer.probe())
        server = await balancer.start()
        for number in range(gateways):
            await start(number)
        load = Load(server.sockets[0].getsockname()[1], pause_s)
        clients = [asyncio.create_task(load.client()) for _ in range(CLIENTS)]
        updates = gateways * rounds
        for number in range(updates):
            await load.until(requests * (number + 1) // (updates + 2))
            await start(gateways + number)
            target, old, mine = up.pop(0)
            old.process.send_signal(signal.SIGTERM)
            assert await old.process.wait() == 0, old.lines
            balancer.targets.remove(target)
            await mine.aclose()
        await load.until(requests)
        load.more = False
        await asyncio.gather(*clients)
        probing.cancel()
        server.close()

    assert balancer.refused == 0
    assert len(balancer.given) == gateways + updates
    return load.outcomes


async def test_no_request_fails_in_a_rolling_update(tmp_path: Path) -> None:
    outcomes = await _rolling(tmp_path, 500, gateways=2, rounds=1, pause_s=0.1)

    assert set(outcomes) == {"answered"}, outcomes


@pytest.mark.nightly
async def test_no_request_of_many_fails_in_rolling_updates(tmp_path: Path) -> None:
    outcomes = await _rolling(tmp_path, LARGE, gateways=3, rounds=2)

    print(f"{outcomes.total():,} requests, {outcomes['answered']:,} answered, 6 gateways replaced")
    assert outcomes.total() >= LARGE
    assert set(outcomes) == {"answered"}, outcomes
