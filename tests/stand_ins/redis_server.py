"""A Redis server for the tests, on its own port, without a file."""

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.stand_ins.ports.reserved import reserved_port

SOON_S = 20.0


class RedisServer:
    """url: of its database 0. Tests may start and stop it."""

    def __init__(
        self,
        program: str,
        folder: Path,
        options: Sequence[str],
        *,
        config: Path | None = None,
        bus: bool = False,
    ) -> None:
        """config: a file that the server reads, and may write. bus: it is part of a Cluster."""
        self.port = reserved_port()
        if bus:
            options = (*options, "--cluster-port", str(reserved_port()))
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._words = (
            *((program, str(config)) if config else (program,)),
            *("--bind", "127.0.0.1", "--dir", str(folder)),
            *(("--port", "0", "--tls-port") if "--tls-cert-file" in options else ("--port",)),
            str(self.port),
            *(() if "--sentinel" in options else ("--save", "", "--appendonly", "no")),
            *options,
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and return when the server accepts connections."""
        self._process = subprocess.Popen(self._words, stdout=subprocess.DEVNULL)
        until = time.monotonic() + SOON_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert time.monotonic() < until, "redis-server does not start"
                time.sleep(0.01)
            else:
                return

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def hang(self) -> None:
        """Pause the server: it keeps connections, accepts new ones, and answers none."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def running_redis(*options: str, program: str = "redis-server") -> Generator[RedisServer]:
    """Run a server, or skip the test if none can run. options: of its command line;
    with a certificate it speaks TLS and nothing else. program: redis-server or valkey-server.
    """
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed (on Debian: apt-get install {program})")
    folder = Path(tempfile.mkdtemp(prefix="strowger-redis-"))
    server = RedisServer(found, folder, options)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)
