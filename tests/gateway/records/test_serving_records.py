"""What a gateway's requests leave in the store."""

import asyncio
import signal
import socket
from pathlib import Path

import httpx
import pytest

from gateway.store.opening import open_store
from gateway.store.usage import Used
from schemas.secret import Secret
from tests.gateway.serving import one_model
from tests.gateway.test_operations import command
from tests.provider import provider

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}
PRICE = "prices: [{match: remote/m-1, input: 1, output: 2}]\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def killed_after(
    config: str, folder: Path, requests: int, number: int, wait_s: float, workers: int = 1
) -> int:
    """Serve requests, wait and send a signal; returns how many were answered."""
    port = free_port()
    file = folder / "config.yaml"
    drain = "drain_delay_s: 0, drain_timeout_s: 5"
    file.write_text(f"{config}\nserver: {{port: {port}, workers: {workers}, {drain}}}\n")
    async with httpx.AsyncClient() as client, command(file, port) as process:
        answers = [
            await client.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=HELLO)
            for _ in range(requests)
        ]
        await asyncio.sleep(wait_s)
        process.send_signal(number)
        await asyncio.wait_for(process.wait(), 15)
    return sum(answer.status_code == 200 for answer in answers)


def used(folder: Path) -> list[Used]:
    store = open_store(Secret(f"sqlite:///{folder / 'strowger.db'}"))
    try:
        return store.used()
    finally:
        store.close()


async def test_sigterm_loses_no_record(tmp_path: Path) -> None:
    async with provider() as remote:
        config = one_model(remote.base_url, PRICE)

        answered = await killed_after(config, tmp_path, 7, signal.SIGTERM, 0.0)

    (row,) = used(tmp_path)
    assert answered == row.requests == row.attempts == 7
    assert (row.model, row.backend) == ("chat", "remote/m-1")
    assert (row.prompt_tokens, row.completion_tokens) == (7 * 7, 7 * 3)
    assert row.cost_usd == pytest.approx(7 * (7 * 1 + 3 * 2) / 1e6)
    assert not list((tmp_path / "strowger-spool").glob("*.rows"))


async def test_kill_9_loses_nothing_that_is_older_than_a_second(tmp_path: Path) -> None:
    """The test allows two, for a machine that is busy."""
    async with provider() as remote:
        config = one_model(remote.base_url)
        await killed_after(config, tmp_path, 5, signal.SIGKILL, 2.0)

        await killed_after(config, tmp_path, 0, signal.SIGTERM, 0.0)

    (row,) = used(tmp_path)
    assert row.requests == 5


async def test_what_several_workers_record_is_added_up(tmp_path: Path) -> None:
    async with provider() as remote:
        config = one_model(remote.base_url)

        answered = await killed_after(config, tmp_path, 9, signal.SIGTERM, 0.0, workers=2)

    (row,) = used(tmp_path)
    assert answered == row.requests == 9
    assert not list((tmp_path / "strowger-spool").glob("*.rows"))
