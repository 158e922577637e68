"""PgBouncer in transaction mode in front of a PostgreSQL server of the tests.

https://www.pgbouncer.org/config.html
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.stand_ins.ports.reserved import reserved_port
from tests.stand_ins.postgres import Postgres

POOL = 3
"""Connections to PostgreSQL for each database."""

SOON_S = 20.0
_CONFIG = """
[databases]
* = host={folder} user=strowger
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool}
server_idle_timeout = 1
max_client_conn = 200
"""


class PgBouncer:
    """A pool in front of a server."""

    def __init__(self, program: str, postgres: Postgres, folder: Path) -> None:
        self._postgres = postgres
        self.port = reserved_port()
        self._file = folder / "pgbouncer.ini"
        text = _CONFIG.format(folder=postgres.folder, port=self.port, pool=POOL)
        self._file.write_text(text)
        self._file.chmod(0o644)
        user = ("-u", "postgres") if os.geteuid() == 0 else ()
        self._words = (program, "-q", *user, str(self._file))
        self._process: subprocess.Popen[bytes] | None = None

    def new_database(self) -> str:
        """Create an empty database and return its URL, through the pool."""
        name = self._postgres.new_database().partition("@/")[2].partition("?")[0]
        return f"postgresql://strowger@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start, and return when it accepts connections."""
        self._process = subprocess.Popen(
            self._words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + SOON_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except OSError:
                assert time.monotonic() < until, "pgbouncer does not start"
                assert self._process.poll() is None, "pgbouncer has ended"
                time.sleep(0.01)
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait()
            self._process = None


@contextmanager
def running_pgbouncer(postgres: Postgres) -> Generator[PgBouncer]:
    """Run a pool, or skip the test if none can run."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed (on Debian: apt-get install pgbouncer)")
    folder = Path(tempfile.mkdtemp(prefix="strowger-pgbouncer-"))
    folder.chmod(0o755)
    pool = PgBouncer(program, postgres, folder)
    try:
        pool.start()
        yield pool
    finally:
        pool.stop()
        shutil.rmtree(folder)
