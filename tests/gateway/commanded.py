"""`strowger serve` as the processes that an operator runs, with a file that a test may edit."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

import httpx
from msgspec import Struct

from tests.oracle.oracle import ORACLE

_T = TypeVar("_T")
SOON_S = 120.0
"""For whatever is promised within a second or two; a busy machine gets more."""


class Running(Protocol):
    """What tests need of `asyncio.subprocess.Process`."""

    pid: int
    returncode: int | None

    async def wait(self) -> int: ...
    def send_signal(self, signal: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


Started = tuple[Running, asyncio.StreamReader, asyncio.StreamReader]
"""A process with its stdout and stderr."""


class Commanded(Struct, kw_only=True, eq=False):
    """The command, ready. lines: what it has said on stderr, one message each.

    plain: those lines that are no JSON, as every one should be where nobody is at a terminal.
    """

    config: Path
    process: Running
    url: str
    lines: list[str]
    access: list[dict[str, object]]
    plain: list[str]

    def edit(self, text: str) -> None:
        """Replace the file as an editor does."""
        write(self.config, text)

    async def said(self, *words: str, since: int = 0) -> str:
        """Wait for a message that has all of these words."""
        async with asyncio.timeout(SOON_S):
            while True:
                ended = self.process.returncode is not None
                for line in self.lines[since:]:
                    if all(word in line for word in words):
                        return line
                assert not ended, f"the command has ended: {self.lines}"
                await asyncio.sleep(0.01)

    async def reload(self, text: str) -> None:
        """Edit and wait until the new file is in force."""
        since = len(self.lines)
        self.edit(text)
        await self.said("is in effect", since=since)

    def message(self, line: str) -> str:
        """Of a line on stderr."""
        try:
            return str(json.loads(line)["message"])
        except ValueError:
            self.plain.append(line)
            return line

    def client(self, **headers: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=SOON_S)


OPERATOR = {"authorization": "Bearer key-of-the-operator"}
"""What a gateway with keys names its process to."""

_PIDS: WeakKeyDictionary[httpx.AsyncClient, int] = WeakKeyDictionary()


async def connected(up: Commanded, stack: AsyncExitStack, worker: int) -> httpx.AsyncClient:
    """A client whose one connection is to this worker."""
    async with asyncio.timeout(SOON_S):
        while True:
            client = httpx.AsyncClient(base_url=up.url, timeout=SOON_S)
            alive = (await client.get("/healthz", headers=OPERATOR)).json()
            if alive["worker"] == worker:
                _PIDS[client] = alive["pid"]
                stack.push_async_callback(client.aclose)
                return client
            await client.aclose()


def pid_of(client: httpx.AsyncClient) -> int:
    """Of the worker that this client of `connected` is connected to."""
    return _PIDS[client]


def write(file: Path, text: str) -> None:
    """As a whole: nobody ever sees half of it."""
    ORACLE.vendors.learn_text(text)
    beside = file.with_suffix(".new")
    beside.write_text(text)
    beside.replace(file)


@asynccontextmanager
async def commanded(
    config: Path,
    text: str,
    *options: str,
    env: Mapping[str, str] | None = None,
    command: tuple[str, ...] = (sys.executable, "-m", "strowger_gateway.gateway.cli"),
    folder: Path | None = None,
    start: Callable[[tuple[str, ...], dict[str, str]], Awaitable[Started]] | None = None,
    until: str = "ready",
) -> AsyncGenerator[Commanded, None]:
    """Serve `text`, written to the file `config`, on any free port.

    until: in the log when the start is over.

    env: in addition to the test's own. command: an installed `strowger`. folder: to run in.
    start: how else to run these arguments of `strowger` in this environment.
    """
    write(config, text)
    words = ("serve", "--config", str(config), "--port", "0", *options)
    environment = {**os.environ, "COLUMNS": "100", **(env or {})}
    if start is None:
        process, stdout, stderr = await _execute((*command, *words), environment, folder)
    else:
        process, stdout, stderr = await start(words, environment)
    up = Commanded(config=config, process=process, url="", lines=[], access=[], plain=[])
    hearing = [asyncio.create_task(_hear(stderr, up.lines, up.message))]
    hearing.append(asyncio.create_task(_hear(stdout, up.access, _read)))
    try:
        up.url = (await up.said("serving ")).rpartition(" on ")[2]
        await up.said(until)
        yield up
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await asyncio.gather(*hearing)


async def _execute(
    words: tuple[str, ...], environment: dict[str, str], folder: Path | None
) -> Started:
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    return cast(Running, process), process.stdout, process.stderr


def _read(line: str) -> dict[str, object]:
    """Of the access log, where `logging.format: console` writes text."""
    if not line.startswith("{"):
        return {"text": line}
    return cast("dict[str, object]", json.loads(line))


async def _hear(stream: asyncio.StreamReader, into: list[_T], read: Callable[[str], _T]) -> None:
    while line := await stream.readline():
        into.append(read(line.decode().rstrip("\n")))


def importer_of(gateway: int) -> int | None:
    """The process id of a gateway's importing process; `None` while there is none."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == gateway and b"import_program" in (folder / "cmdline").read_bytes():
                return int(folder.name)
    return None


async def importer_started(gateway: int) -> int:
    """Wait until a gateway has an importing process; its process id."""
    async with asyncio.timeout(SOON_S):
        while (pid := importer_of(gateway)) is None:  # noqa: ASYNC110  nothing reports it
            await asyncio.sleep(0.02)
    return pid
