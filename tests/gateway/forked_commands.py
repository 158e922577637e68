"""`strowger serve` as in `tests.gateway.commanded`, forked from a process that has imported it."""

import asyncio
import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path

import msgspec

from tests.gateway.commanded import Commanded, Running, Started, commanded
from tests.gateway.template_process import Wanted

LISTENS_S = 120.0
"""For the template to import the gateway, which takes a second on an idle machine."""


@asynccontextmanager
async def forked(
    config: Path,
    text: str,
    *options: str,
    env: Mapping[str, str] | None = None,
    until: str = "ready",
    folder: Path | None = None,
) -> AsyncGenerator[Commanded, None]:
    """Serve `text` as `commanded` does; by the command itself if `env` preloads a library.

    Such a library has its effect before the first import.
    """
    if "LD_PRELOAD" in (env or {}) or "COVERAGE_PROCESS_CONFIG" in os.environ:
        async with commanded(config, text, *options, env=env, until=until, folder=folder) as up:
            yield up
    else:
        start = partial(_fork, folder=folder)
        async with commanded(config, text, *options, env=env, start=start, until=until) as up:
            yield up


async def printed(*words: str, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run `strowger` with these arguments; return its exit status, stdout and stderr."""
    process, stdout, stderr = await _fork(words, {**os.environ, **(env or {})})
    said, complaints = await asyncio.gather(stdout.read(), stderr.read())
    return await process.wait(), said.decode(), complaints.decode()


class _Forked(Running):
    """A process whose parent is the template, which reports its exit."""

    def __init__(self, pid: int, told: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._writer = writer
        self._ending = asyncio.create_task(self._end(told))

    async def _end(self, told: asyncio.StreamReader) -> int:
        self.returncode = int(await told.readline())
        self._writer.close()
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.shield(self._ending)

    def send_signal(self, signal: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def _fork(
    words: tuple[str, ...], environment: dict[str, str], folder: Path | None = None
) -> Started:
    outputs = [os.pipe(), os.pipe()]
    written = [write for _, write in outputs]
    process = await fork_into(words, environment, written, folder=folder)
    stdout, stderr = [await _reader(read) for read, _ in outputs]
    return process, stdout, stderr


async def fork_into(
    words: tuple[str, ...],
    environment: dict[str, str],
    outputs: list[int],
    *,
    terminal: bool = False,
    nohup: bool = False,
    folder: Path | None = None,
) -> Running:
    """Run `strowger` with these arguments; its stdout and stderr are `outputs`, closed here.

    terminal, nohup: see `Wanted`. folder: to run in; `None`: this process's.
    """
    address = await asyncio.to_thread(_template)
    wanted = Wanted(
        [os.fsencode(word) for word in words],
        [(os.fsencode(name), os.fsencode(value)) for name, value in environment.items()],
        os.getcwdb() if folder is None else os.fsencode(folder),
        terminal,
        nohup,
    )
    sent = msgspec.msgpack.encode(wanted)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    socket.send_fds(connection, [sent], outputs)
    for output in outputs:
        os.close(output)
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    return _Forked(int(await reader.readline()), reader, writer)


class _Output(asyncio.StreamReaderProtocol):
    """A pipe has no other direction that could stay open."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False


async def _reader(file: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: _Output(reader), os.fdopen(file, "rb", buffering=0)
    )
    return reader


@cache
def _template() -> str:
    """Start the template of this process, once; return the address of its socket."""
    folder = Path(tempfile.mkdtemp(prefix="strowger-template-"))
    address = folder / "socket"
    words = (sys.executable, "-m", "tests.gateway.template_process", str(address))
    template = subprocess.Popen(words, stdin=subprocess.DEVNULL)

    def end() -> None:
        template.terminate()
        template.wait()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    deadline = time.monotonic() + LISTENS_S
    while not address.exists():
        assert template.poll() is None, "the template has exited"
        assert time.monotonic() < deadline, "the template does not listen"
        time.sleep(0.01)
    return str(address)
