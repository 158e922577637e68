"""The stderr of an engine process is in the gateway's log, in the same format."""

import asyncio
import logging
import sys

import pytest

from strowger_gateway.gateway.backends.engines.process.log import LONGEST, log_lines

pytestmark = pytest.mark.anyio

SPEAKS = """
import sys
write = sys.stderr.buffer.write
write(b"engine: loading\\n")
write(b"Traceback (most recent call last):\\n  \\xff\\x1b[31m\\n\\n")
write(b"y" * 20000)
"""


async def test_each_line_is_a_message_for_every_writer(caplog: pytest.LogCaptureFixture) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SPEAKS, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None

    with caplog.at_level(logging.INFO, "strowger"):
        await log_lines(process.stderr, "here")
    await process.wait()

    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert said[:3] == [
        ("INFO", "here: loading"),
        ("WARNING", "here: Traceback (most recent call last):"),
        ("WARNING", "here:   \ufffd\x1b[31m"),
    ]
    assert [len(text) - len("here: ") for _, text in said[3:]] == [
        LONGEST,
        LONGEST,
        20000 - 2 * LONGEST,
    ]
