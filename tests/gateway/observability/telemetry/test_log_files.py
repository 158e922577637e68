"""Logs that a shell sends to a file, without appending, can be copied and truncated."""

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.gateway.commanded import SOON_S, write
from tests.gateway.fleet.processes.restarts import until
from tests.gateway.forked_commands import fork_into
from tests.gateway.serving import one_model
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}]}


async def line_in(file: Path, word: str) -> str:
    """Wait for a line with this word; return the whole file."""
    await until(lambda: word in file.read_text())
    return await asyncio.to_thread(file.read_text)


async def test_a_log_file_that_is_truncated_goes_on_at_its_beginning(tmp_path: Path) -> None:
    log, config = tmp_path / "strowger.log", tmp_path / "config.yaml"
    written = os.open(log, os.O_WRONLY | os.O_CREAT)
    outputs = [written, os.dup(written)]
    async with provider() as remote:
        write(config, one_model(remote.base_url, "server: {drain_delay_s: 0}"))
        words = ("serve", "--config", str(config), "--port", "0")
        process = await fork_into(words, dict(os.environ), outputs)
        text = await line_in(log, "ready")
        url = text.partition(" on ")[2].partition('"')[0]
        async with httpx.AsyncClient(base_url=url, timeout=SOON_S) as client:
            await client.post("/v1/chat/completions", json=HELLO)
            await line_in(log, '"status":200')
            os.truncate(log, 0)
            await client.post("/v1/chat/completions", json=HELLO)
        after = await line_in(log, '"status":200')
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), SOON_S)

    assert after.startswith("{")
    assert after.count('"status":200') == 1
