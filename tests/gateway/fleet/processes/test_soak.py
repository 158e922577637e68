"""Memory and connections after many requests; `make soak` shows it for a million of them."""

import asyncio
import sys
from pathlib import Path

import pytest

from benchmarks.soak.load import ask, leave, streams_open
from benchmarks.soak.subject import subject

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

SERVING_MB = 80
"""Of the process that serves; 63 of them were measured."""

IMPORTING_MB = 32
"""Of the process that imports records; 25 of them were measured."""


async def test_memory_stays_level_and_no_stream_is_left_open(tmp_path: Path) -> None:
    with subject(tmp_path) as gateway:
        await ask(gateway.port, 10_000)
        await leave(gateway.port, 250)
        serving, importing = gateway.resident_mb_each()
        level = gateway.resident_mb()
        await ask(gateway.port, 20_000)
        await leave(gateway.port, 500)
        still = -1
        for _ in range(200):
            still = await streams_open(gateway.provider)
            if not still:
                break
            await asyncio.sleep(0.05)
        after = gateway.resident_mb()

    assert still == 0
    assert serving <= SERVING_MB
    assert importing <= IMPORTING_MB
    assert after <= level * 1.1
