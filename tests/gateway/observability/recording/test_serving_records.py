"""The records of a gateway's requests in the store."""

import asyncio
import os
import resource
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from strowger_gateway.gateway.governance.usage.report import UsageRow
from strowger_gateway.gateway.storage.sql.open import open_store
from strowger_gateway.schemas.secret import Secret
from tests.gateway.commanded import SOON_S, Commanded, importer_started
from tests.gateway.forked_commands import forked
from tests.gateway.serving import one_model
from tests.gateway.storage.sql.used import used
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
ALONE = "server: {drain_delay_s: 0}"
TWO = "server: {drain_delay_s: 0, workers: 2}"
STORE_AWAY = "strowger_store_available 0.0"
SPOOL_AWAY = "strowger_spool_available 0.0"
PRICE = "prices: [{match: remote/m-1, input: 1, output: 2}]\n"


async def killed_after(config: str, folder: Path, requests: int, number: int, wait_s: float) -> int:
    """Serve requests, wait and send a signal; returns how many were answered."""
    text = f"{config}\nserver: {{drain_delay_s: 0, drain_timeout_s: 5}}\n"
    async with forked(folder / "config.yaml", text) as up, up.client() as client:
        answers = [await client.post("/v1/chat/completions", json=HELLO) for _ in range(requests)]
        await asyncio.sleep(wait_s)
        up.process.send_signal(number)
        await asyncio.wait_for(up.process.wait(), SOON_S)
    return sum(answer.status_code == 200 for answer in answers)


def used_in(folder: Path) -> list[UsageRow]:
    store = open_store(Secret(f"sqlite:///{folder / 'strowger.db'}"))
    try:
        return used(store)
    finally:
        store.close()


async def test_sigterm_loses_no_record(tmp_path: Path) -> None:
    async with provider() as remote:
        config = one_model(remote.base_url, PRICE)

        answered = await killed_after(config, tmp_path, 7, signal.SIGTERM, 0.0)

    (row,) = used_in(tmp_path)
    assert answered == row.requests == row.attempts == 7
    assert (row.model, row.backend) == ("chat", "remote/m-1")
    assert (row.prompt_tokens, row.completion_tokens) == (7 * 7, 7 * 3)
    assert row.cost_nano_usd == 7 * (7 * 1 + 3 * 2) * 1000
    assert not list((tmp_path / "strowger-spool").glob("*.rows"))


async def test_kill_9_loses_nothing_that_is_older_than_a_second(tmp_path: Path) -> None:
    """The test allows two seconds, because the machine may be busy."""
    async with provider() as remote:
        config = one_model(remote.base_url)
        await killed_after(config, tmp_path, 5, signal.SIGKILL, 2.0)

        await killed_after(config, tmp_path, 0, signal.SIGTERM, 0.0)

    (row,) = used_in(tmp_path)
    assert row.requests == 5


async def test_a_worker_killed_with_9_loses_a_second_at_most_and_the_others_nothing(
    tmp_path: Path,
) -> None:
    """As above it may be two. Nothing is there twice, and the end by SIGTERM loses none."""
    async with (
        provider() as remote,
        forked(tmp_path / "config.yaml", one_model(remote.base_url, TWO)) as up,
        AsyncExitStack() as stack,
    ):
        worker_of = await a_connection_to_each(up, stack)
        old = {pid: [await answered(client) for _ in range(5)] for pid, client in worker_of.items()}
        await asyncio.sleep(2.0)
        new = {pid: [await answered(client) for _ in range(3)] for pid, client in worker_of.items()}
        killed, lives = worker_of
        os.kill(killed, signal.SIGKILL)
        await up.said("was killed by signal 9")
        up.process.terminate()
        await asyncio.wait_for(up.process.wait(), SOON_S)

    kept = known(tmp_path, [*old[killed], *old[lives], *new[lives], *new[killed]])
    assert kept >= {*old[killed], *old[lives], *new[lives]}
    assert sum(row.requests for row in used_in(tmp_path)) == len(kept)
    assert not list((tmp_path / "strowger-spool").glob("*.rows"))


async def test_a_disk_that_is_full_for_a_while_costs_no_request_and_no_record(
    tmp_path: Path,
) -> None:
    """First the database cannot grow, then no file can; a limit on file sizes simulates that."""
    async with (
        provider() as remote,
        forked(tmp_path / "config.yaml", one_model(remote.base_url, ALONE)) as up,
        up.client() as client,
    ):
        ids = [await answered(client)]
        hard = resource.prlimit(up.process.pid, resource.RLIMIT_FSIZE)[1]
        gauges: list[set[str]] = []
        importer = await importer_started(up.process.pid)
        for pid, most, trouble, gauge, over in (
            (importer, 8_192, "buffering records in", STORE_AWAY, "store reachable again"),
            (up.process.pid, 1, "cannot write records to the", SPOOL_AWAY, "again; 0 were lost"),
        ):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, hard))
            ids += [await answered(client) for _ in range(3)]
            await up.said(trouble)
            ids += [await answered(client) for _ in range(3)]
            gauges.append(await gauges_with(client, gauge))
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
            await up.said(over)
            assert sum(trouble in line for line in up.lines) == 1
        healed = (await client.get("/metrics")).text.splitlines()
        up.process.terminate()
        await asyncio.wait_for(up.process.wait(), SOON_S)

    assert known(tmp_path, ids) == set(ids)
    assert sum(row.requests for row in used_in(tmp_path)) == len(ids)
    assert {STORE_AWAY, "strowger_spool_available 1.0"} <= gauges[0]
    assert {SPOOL_AWAY, "strowger_records_lost_total 0.0"} <= gauges[1]
    assert "strowger_records_in_memory 0.0" not in gauges[1]
    assert "strowger_spool_available 1.0" in healed


async def gauges_with(client: httpx.AsyncClient, line: str) -> set[str]:
    """The metrics once they have `line`: the importer logs a moment before it reports."""
    async with asyncio.timeout(SOON_S):
        while True:
            lines = set((await client.get("/metrics")).text.splitlines())
            if line in lines:
                return lines
            await asyncio.sleep(0.05)


async def a_connection_to_each(
    up: Commanded, stack: AsyncExitStack
) -> dict[int, httpx.AsyncClient]:
    """By the process id of the worker that has it."""
    found: dict[int, httpx.AsyncClient] = {}
    async with asyncio.timeout(SOON_S):
        while len(found) < 2:
            client = await stack.enter_async_context(up.client())
            found.setdefault((await client.get("/healthz")).json()["pid"], client)
    return found


async def answered(client: httpx.AsyncClient) -> str:
    """The id of a request."""
    answer = await client.post("/v1/chat/completions", json=HELLO)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-gateway-request-id"]


def known(folder: Path, ids: list[str]) -> set[str]:
    """Which of them are in the store."""
    store = open_store(Secret(f"sqlite:///{folder / 'strowger.db'}"))
    try:
        return {one for one in ids if store.known_request(one) is not None}
    finally:
        store.close()
