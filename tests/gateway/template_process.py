"""A process that has imported the gateway, and forks one that runs `strowger` for each caller.

`python -m tests.gateway.template_process SOCKET`. A connection to SOCKET is one process: the caller
sends its arguments and its environment with the file descriptors of its stdout and stderr, reads
the process id, and once the process has exited its status. Importing what `strowger serve` imports
is half of the CPU time that a gateway in a test takes. Workers and importers, which the gateway
itself starts, are processes of their own as ever.
"""

import fcntl
import gc
import os
import select
import signal
import socket
import sys
import termios
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.cli import main

IMPORTED = (
    "strowger_gateway.gateway.cli.main",
    "strowger_gateway.gateway.fleet.processes.leader",
    "strowger_gateway.gateway.fleet.processes.single_process",
)
MOST_BYTES = 1 << 20


class Wanted(Struct, frozen=True):
    """A process: its arguments after the program's name, environment and working directory.

    Bytes, because names of files need not be Unicode. terminal: its stdout is the terminal that
    controls its session, and is its stdin, too. nohup: with SIGHUP ignored, as by nohup(1).
    """

    arguments: list[bytes]
    environment: list[tuple[bytes, bytes]]
    folder: bytes
    terminal: bool = False
    nohup: bool = False


_decoder = msgspec.msgpack.Decoder(Wanted)


class _Template:
    def __init__(self, listener: socket.socket, parent: int) -> None:
        self._listener = listener
        self._parent = parent
        self._running: dict[int, socket.socket] = {}
        self._ended, self._woken = os.pipe()
        os.set_blocking(self._woken, False)

    def run(self) -> Wanted | None:
        """Return in each child what it shall run, and `None` once the parent has exited."""
        signal.signal(signal.SIGCHLD, _do_nothing)
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)
        while os.getppid() == self._parent:
            ready, _, _ = select.select([self._listener, self._ended], [], [], 1.0)
            if self._ended in ready:
                os.read(self._ended, 4096)
                self._reap()
            if self._listener in ready and (wanted := self._accept()) is not None:
                return wanted
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)
        return None

    def _reap(self) -> None:
        for pid in tuple(self._running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with self._running.pop(pid) as connection, suppress(OSError):
                    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())

    def _accept(self) -> Wanted | None:
        """Fork for one connection."""
        connection, _ = self._listener.accept()
        sent, streams, _, _ = socket.recv_fds(connection, MOST_BYTES, 2)
        if not sent:  # the caller has given up
            connection.close()
            return None
        pid = os.fork()
        if not pid:
            self._become_a_child(connection, streams)
            return _decoder.decode(sent)
        for stream in streams:
            os.close(stream)
        self._running[pid] = connection
        connection.sendall(f"{pid}\n".encode())
        return None

    def _become_a_child(self, connection: socket.socket, streams: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (connection, self._listener, *self._running.values()):
            one.close()
        os.close(self._ended)
        os.close(self._woken)
        for place, stream in enumerate(streams, 1):
            os.dup2(stream, place)
            os.close(stream)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The wake-up pipe reports the signal."""


def _listen(address: str) -> Wanted | None:
    for name in IMPORTED:
        import_module(name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{address}.new")
        listener.listen()
        Path(f"{address}.new").rename(address)
        gc.collect()
        gc.freeze()
        return _Template(listener, os.getppid()).run()


def _take_terminal(*, nohup: bool) -> None:
    """The tests themselves may run under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
    os.setsid()
    fcntl.ioctl(1, termios.TIOCSCTTY, 0)
    os.dup2(1, 0)


if __name__ == "__main__":
    if (wanted := _listen(sys.argv[1])) is not None:
        if wanted.terminal:
            _take_terminal(nohup=wanted.nohup)
        os.chdir(wanted.folder)
        os.environb.clear()
        os.environb.update(wanted.environment)
        sys.argv[:] = ["strowger", *map(os.fsdecode, wanted.arguments)]
        main()
