"""Requests are answered and recorded where nothing takes what the gateway writes."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.commanded import SOON_S, Running, write
from tests.gateway.forked_commands import fork_into
from tests.gateway.observability.recording.test_serving_records import ALONE, answered, known
from tests.gateway.serving import one_model
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

Start = Callable[[tuple[str, ...]], Awaitable[Running]]


async def with_closed_streams(words: tuple[str, ...]) -> Running:
    """As `strowger … <&- >&- 2>&-` of a shell."""
    closed = 'exec "$0" -m strowger_gateway.gateway.cli "$@" <&- >&- 2>&-'
    process = await asyncio.create_subprocess_exec("sh", "-c", closed, sys.executable, *words)
    return cast(Running, process)


async def with_a_reader_that_has_left(words: tuple[str, ...]) -> Running:
    """As `strowger … 2>&1 | head -0`."""
    read, write = os.pipe()
    process = await fork_into(words, dict(os.environ), [os.dup(write), write])
    os.close(read)
    return process


@asynccontextmanager
async def serving_unread(
    config: Path, text: str, start: Start
) -> AsyncGenerator[tuple[Running, httpx.AsyncClient], None]:
    """A gateway that cannot say where it listens."""
    write(config, text)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = await start(("serve", "--config", str(config), "--port", str(port)))
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=SOON_S) as client:
            await until_ready(process, client)
            yield process, client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until_ready(process: Running, client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(SOON_S):
        while process.returncode is None:
            try:
                if (await client.get("/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.05)
    raise AssertionError(f"the gateway has ended with {process.returncode}")


@pytest.mark.parametrize("start", [with_closed_streams, with_a_reader_that_has_left])
async def test_requests_are_recorded_where_nothing_reads_the_output(
    start: Start, tmp_path: Path
) -> None:
    async with (
        provider() as remote,
        serving_unread(tmp_path / "config.yaml", one_model(remote.base_url, ALONE), start) as (
            process,
            client,
        ),
    ):
        ids = [await answered(client) for _ in range(3)]
        async with asyncio.timeout(SOON_S):
            while "records_imported_total 6" not in (await client.get("/metrics")).text:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        ready = (await client.get("/readyz")).json()
        process.terminate()
        status = await asyncio.wait_for(process.wait(), SOON_S)

    assert "records" not in ready
    assert status == 0
    assert known(tmp_path, ids) == set(ids)
