"""A gateway is restarted and upgraded under load, and no request that it accepted is lost.

STROWGER_RESTARTS is the number of hand-overs of the large run (`make nightly-restarts`).
"""

import asyncio
import os
import signal
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from tests.gateway.commanded import SOON_S, commanded
from tests.gateway.fleet.processes.restarts import CHAT, Client, Load, gone, line_of, speaks
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

RESTARTS = int(os.environ.get("STROWGER_RESTARTS", "20"))
CONNECTIONS, RATE = 200, 25.0
"""Of nightly runs. Others have fewer connections, so that each is used before idle ones close."""
FEW, EACH_USED_S = 30, 5.0
CONFIG = """
server: {{drain_delay_s: {delay_s}, drain_timeout_s: 20}}
store: {{url: "sqlite:///{folder}/strowger.db"}}
auth: {{mode: keys, keys: [{{name: ci, key: k}}]}}
providers: [{{name: one, adapter: openai, base_url: "{url}", api_key: k}}]
models: [{{name: chat, backends: [{{provider: one, model: m}}]}}]
"""
PORT_OF = slice(len("http://127.0.0.1:"), None)


def config(url: str, folder: Path, *, delay_s: float = 0.3) -> str:
    return CONFIG.format(url=url, folder=folder, delay_s=delay_s)


def recorded(folder: Path) -> int:
    """The number of requests in the store."""
    with sqlite3.connect(folder / "strowger.db") as store:
        (count,) = store.execute("SELECT count(*) FROM requests").fetchone()
    return int(count)


async def ask(port: int) -> str:
    """Send a request on a connection of its own."""
    loop = asyncio.get_running_loop()
    try:
        _, client = await loop.create_connection(Client, "127.0.0.1", port)
    except ConnectionRefusedError:
        return "refused"
    outcome = await client.exchange(CHAT)
    client.close()
    return outcome


async def every_20_ms(port: int, process: int) -> Counter[str]:
    """Open a connection for each request, until the gateway refuses them."""
    asking = set[asyncio.Task[str]]()
    ending = asyncio.create_task(gone(process))
    while not ending.done():
        asking.add(asyncio.create_task(ask(port)))
        await asyncio.sleep(0.02)
    return Counter(await asyncio.gather(*asking))


async def test_a_new_gateway_takes_over_without_a_lost_request(tmp_path: Path) -> None:
    """The old one finishes its streams. At the end, SIGTERM resets no connection either."""
    async with (
        provider(speaks) as remote,
        commanded(
            tmp_path / "config.yaml",
            config(remote.base_url, tmp_path, delay_s=EACH_USED_S),
            "--workers",
            "2",
        ) as up,
        line_of(up) as line,
    ):
        port = int(up.url[PORT_OF])
        load = Load(("127.0.0.1", port), FEW, RATE)
        await load.start()
        await load.sent(12)
        await line.hand_over(until_gone=True)
        await load.sent(12)
        await load.stop()
        os.kill(line.pid, signal.SIGTERM)
        ended = await asyncio.wait_for(every_20_ms(port, line.pid), SOON_S)

    assert set(load.outcomes) == {"answered"}, load.outcomes
    assert up.process.returncode == 0
    assert set(ended) <= {"answered", "status 503", "refused"}, ended
    assert ended["answered"] > 0
    assert recorded(tmp_path) == load.outcomes["answered"] + ended["answered"] + ended["status 503"]


async def test_a_signal_to_hand_over_ends_no_gateway_that_is_starting(tmp_path: Path) -> None:
    """Such as one that is to take over: the signal may have been sent to all, and twice."""
    text = config("http://127.0.0.1:9", tmp_path)
    async with commanded(tmp_path / "config.yaml", text, until="serving ") as up:
        os.kill(up.process.pid, signal.SIGUSR2)
        await up.said("ready")
        up.process.terminate()
        status = await asyncio.wait_for(up.process.wait(), SOON_S)

    assert status == 0


@pytest.mark.nightly
@pytest.mark.parametrize("workers", ["1", "4"])
async def test_many_hand_overs_lose_no_request(workers: str, tmp_path: Path) -> None:
    async with (
        provider(speaks) as remote,
        commanded(
            tmp_path / "config.yaml",
            config(remote.base_url, tmp_path, delay_s=5),
            "--workers",
            workers,
        ) as up,
        line_of(up) as line,
    ):
        load = Load(("127.0.0.1", int(up.url[PORT_OF])), CONNECTIONS, RATE)
        await load.start()
        for _ in range(RESTARTS):
            await load.sent(50)
            await line.hand_over(until_gone=True)
        await load.sent(50)
        await load.stop()

    slow = f"{load.slowest_s:.2f} s for the slowest of those that are not streamed"
    print(f"{RESTARTS} hand-overs of {workers} workers: {dict(load.outcomes)}, {slow}")
    assert set(load.outcomes) == {"answered"}, load.outcomes
    assert recorded(tmp_path) == load.outcomes["answered"]


@pytest.mark.nightly
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("signalled", ["the old one", "the new one"])
async def test_a_signal_while_a_new_gateway_starts(
    workers: str, signalled: str, tmp_path: Path
) -> None:
    """SIGTERM to the old one ends both. A new one that is killed changes nothing."""
    text = config("http://127.0.0.1:9", tmp_path)
    async with commanded(tmp_path / "config.yaml", text, "--workers", workers) as up:
        for pause_s in (0.5, 0.1, 1.0):
            os.kill(up.process.pid, signal.SIGUSR2)
            await asyncio.sleep(pause_s)
            (new,) = await asyncio.to_thread(gateways_under, up.process.pid)
            since = len(up.lines)
            if signalled == "the new one":
                os.kill(new, signal.SIGKILL)
                await up.said("before it was ready", since=since)
                async with up.client() as client:
                    assert (await client.get("/healthz")).status_code == 200
                continue
            up.process.terminate()
            await asyncio.wait_for(up.process.wait(), SOON_S)
            await gone(new)
            assert await ask(int(up.url[PORT_OF])) == "refused"
            break


def gateways_under(pid: int) -> list[int]:
    """The children of a process that run `strowger serve`."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = [int(one) for one in children]
    return [
        one
        for one in found
        if b"strowger_gateway.gateway.cli" in Path(f"/proc/{one}/cmdline").read_bytes()
    ]
