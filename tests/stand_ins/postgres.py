"""A PostgreSQL server for the tests, started for the first and stopped after the last.

It keeps its data in its own folder and listens on a socket there. `strowger` is a superuser without
a password. Sorting follows English unless a column sets another collation, as on many real servers.
"""

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
_FAST = "-c fsync=off -c full_page_writes=off -c shared_buffers=16MB -c max_connections=100"


def _program(name: str) -> str | None:
    return shutil.which(name) or next(
        (str(place / name) for place in _PLACES if (place / name).exists()), None
    )


def _owner() -> str | None:
    """Return the user to run as: PostgreSQL rejects root, and Debian's package adds a user."""
    return "postgres" if os.geteuid() == 0 else None


def why_not() -> str:
    """Return why a server cannot run here; "" if it can."""
    if _program("initdb") is None or _program("pg_ctl") is None:
        return "PostgreSQL is not installed (on Debian: apt-get install postgresql)"
    if _owner() is not None:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return "PostgreSQL does not run as root, and there is no user postgres"
    return ""


def _run(folder: Path, *words: str) -> None:
    subprocess.run(
        words,
        check=True,
        capture_output=True,
        cwd=folder,
        user=_owner(),
        extra_groups=[] if _owner() else None,
    )


class Postgres:
    """A server. url: of a database, which may not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made = 0
        self._pids: list[int] = []

    def url(self, database: str) -> str:
        return f"postgresql://strowger@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """Create an empty database and return its URL."""
        import psycopg

        self._made += 1
        name = f"test_{self._made}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def empty_database(self) -> str:
        """Empty the database of `url("shared")`, which has one user at a time; return its URL.

        A database of its own has 300 files, which take longer than most tests.
        """
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            known = "SELECT FROM pg_database WHERE datname = 'shared'"
            if connection.execute(known).fetchone() is None:
                connection.execute("CREATE DATABASE shared")
                return self.url("shared")
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = 'shared'"
            )
        with psycopg.connect(self.url("shared"), autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        return self.url("shared")

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses= {_FAST}"
        log = str(self.folder / "log")
        self._ctl("-l", log, "-o", options, "-w", "start")

    def stop(self) -> None:
        self._ctl("-m", "immediate", "-w", "stop")

    def kill(self) -> None:
        """Kill every process of the server at once, as in a crash of the machine."""
        self._signal(signal.SIGKILL)
        while any(Path(f"/proc/{pid}").exists() for pid in self._pids):
            time.sleep(0.01)

    def hang(self) -> None:
        """Pause the server: it keeps connections, accepts new ones, and answers none."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        """Send a signal to every process of the server."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        if number != signal.SIGCONT:
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
            self._pids = [first, *map(int, children)]
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _ctl(self, *words: str) -> None:
        program = _program("pg_ctl")
        assert program is not None
        _run(self.folder, program, "-D", str(self.folder / "data"), *words)


@contextmanager
def running_postgres(template: Path | None = None) -> Generator[Postgres]:
    """Run a server, or skip the test if none can run.

    template: a folder for the data of a new server, which the first caller creates and all others
    copy: creating it takes almost a second of CPU.
    """
    if reason := why_not():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="strowger-pg-"))
    try:
        if (owner := _owner()) is not None:
            shutil.chown(folder, owner)
        if template is None:
            _create_data(folder)
        else:
            _copy_data(folder, template)
        server = Postgres(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _create_data(folder: Path) -> None:
    program = _program("initdb")
    assert program is not None
    words = ("-D", str(folder / "data"), "-U", "strowger", "-A", "trust", "-E", "UTF8")
    sorting = ("--locale-provider=icu", "--icu-locale=en", "--locale=C.UTF-8")
    _run(folder, program, *words, *sorting, "--no-sync", "--no-instructions")


def _copy_data(folder: Path, template: Path) -> None:
    with open(f"{template}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            _create_data(folder)
            subprocess.run(("cp", "-a", str(folder / "data"), str(template)), check=True)
            return
    subprocess.run(("cp", "-a", str(template), str(folder / "data")), check=True)
