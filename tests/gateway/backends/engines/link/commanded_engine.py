"""`strowger engine` as the process that an operator runs."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from tests.gateway.backends.engines.link.fleets import Certificates

START_S = 600.0
"""For an engine to load torch and its model, on a machine that does much else."""


class CommandedEngine:
    """lines: of its log."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self.host = ""
        self._reading = asyncio.create_task(self._read())

    async def said(self, words: str) -> str:
        """Wait for a line with these words."""
        async with asyncio.timeout(START_S):
            while True:
                for line in self.lines:
                    if words in line:
                        return line
                assert not self._reading.done(), self.lines
                await asyncio.sleep(0.02)

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode().rstrip())

    async def stop(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self._reading


@asynccontextmanager
async def commanded_engine(
    certificates: Certificates, *words: str
) -> AsyncGenerator[CommandedEngine, None]:
    """Ready, until the block ends. words: its configuration, or further options."""
    own = certificates.engine
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "strowger_gateway.gateway.cli",
            "engine",
            "--listen",
            "127.0.0.1:0",
        ),
        *("--tls-cert", str(own.cert), "--tls-key", str(own.key), "--tls-ca", str(own.ca)),
        *words,
        stderr=PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    engine = CommandedEngine(process)
    try:
        line = await engine.said("listening on ")
        engine.host = line.rpartition("listening on ")[2]
        yield engine
    finally:
        await engine.stop()
