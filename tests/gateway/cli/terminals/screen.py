"""A terminal in which `strowger` runs, and what it shows. See pty(7)."""

import asyncio
import errno
import fcntl
import os
import re
import struct
import termios
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.gateway.commanded import SOON_S, Running, write
from tests.gateway.forked_commands import fork_into

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
"""Control sequences: colours, the cursor, titles."""

ORDINARY = {"TERM": "xterm-256color", "NO_COLOR": ""}
"""What the environment of most terminals says; that of the tests may say something else."""


class Screen:
    """The side of a terminal that a person sees. inner: the side of the processes.

    text: everything that was written, with control sequences.
    """

    def __init__(self, columns: int = 100) -> None:
        self.text = ""
        self._outer, self.inner = os.openpty()
        fcntl.ioctl(self._outer, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.set_blocking(self._outer, False)
        self._open = True
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._outer, self._read)

    @property
    def shown(self) -> str:
        """The text without control sequences and carriage returns."""
        return CODES.sub("", self.text).replace("\r", "")

    async def closed(self) -> None:
        """Wait until no process has the terminal open, and all that they wrote is here."""
        async with asyncio.timeout(SOON_S):
            while self._open:
                self._changed.clear()
                await self._changed.wait()

    async def shows(self, *words: str, since: int = 0) -> str:
        """Wait for a line with all of these words. since: skips this many characters of `shown`."""
        async with asyncio.timeout(SOON_S):
            while True:
                self._changed.clear()
                for line in self.shown[since:].splitlines():
                    if all(word in line for word in words):
                        return line
                assert self._open, f"the command has ended: {self.shown}"
                await self._changed.wait()

    def type(self, keys: bytes) -> None:
        """Press keys: b"\\x03" is Ctrl-C."""
        os.write(self._outer, keys)

    def hang_up(self) -> None:
        """Close the window."""
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._outer)
            os.close(self._outer)
            self._changed.set()

    def _read(self) -> None:
        try:
            data = os.read(self._outer, 65536)
        except OSError as exc:
            if exc.errno == errno.EAGAIN:
                return
            data = b""  # EIO: no process has the terminal open any more
        if data:
            self.text += data.decode(errors="replace")
            self._changed.set()
        else:
            self.hang_up()


class OnScreen:
    """A command that runs in a terminal. url: of a gateway, once it has shown it."""

    def __init__(self, process: Running, screen: Screen) -> None:
        self.process = process
        self.screen = screen
        self.url = ""

    def client(self, **headers: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=SOON_S)

    async def exits(self) -> int:
        """Wait for its end; its exit status."""
        return await asyncio.wait_for(self.process.wait(), SOON_S)


@asynccontextmanager
async def serving_on_screen(
    config: Path,
    text: str,
    *options: str,
    env: Mapping[str, str] | None = None,
    nohup: bool = False,
) -> AsyncGenerator[OnScreen, None]:
    """Serve `text`, written to the file `config`, on any free port, until the block ends.

    env, nohup: as in `on_screen`.
    """
    write(config, text)
    words = ("serve", "--config", str(config), "--port", "0", *options)
    async with on_screen(*words, env=env, nohup=nohup) as up:
        line = await up.screen.shows("serving ", "http")
        up.url = line.rpartition(" on ")[2].rstrip('"}')
        await up.screen.shows("ready")
        yield up


@asynccontextmanager
async def on_screen(
    *words: str, env: Mapping[str, str] | None = None, nohup: bool = False, columns: int = 100
) -> AsyncGenerator[OnScreen, None]:
    """Run `strowger` in a session of a terminal; kill it at the end of the block.

    env: in addition to the test's own. nohup: start it with SIGHUP ignored. columns: of the
    terminal.
    """
    screen = Screen(columns)
    environment = {**os.environ, **ORDINARY, **(env or {})}
    outputs = [os.dup(screen.inner), screen.inner]
    process = await fork_into(words, environment, outputs, terminal=True, nohup=nohup)
    up = OnScreen(process, screen)
    try:
        yield up
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        screen.hang_up()
