"""Turns at a target: of all processes and machines that export one store to it, one at a time.

A process that is killed loses its turn at once, because its connection or its file is closed.
"""

import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import blake2b

from strowger_gateway.gateway.config.schema_store import SQLITE
from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret

_HELD = "SELECT pg_try_advisory_xact_lock(?)"


@contextmanager
def turn(database: Database, url: Secret, where: str) -> Generator[Callable[[], None] | None]:
    """Hold the turn until the block ends; `None` if another process has it.

    url: of the store. where: the target. The result raises the driver's error once the turn is
    lost, which leaves the block as StoreUnavailable.
    In PostgreSQL it is an advisory lock of a transaction, which PgBouncer can carry.
    """
    address = url.reveal()
    if address.startswith(SQLITE):
        with _file_turn(f"{address.removeprefix(SQLITE)}-export") as held:
            yield (lambda: None) if held else None
        return
    place = (where.partition("://")[2] or where).partition("?")[0].rpartition("@")[2]
    key = int.from_bytes(blake2b(place.encode(), digest_size=8).digest(), "big", signed=True)
    with database.writing(alone=False) as session:
        if not session.rows(tuple[bool], _HELD, key)[0][0]:
            yield None
            return

        def check() -> None:
            session.rows(tuple[int], "SELECT 1")

        yield check


@contextmanager
def _file_turn(name: str) -> Generator[bool]:
    """Lock a file next to the database; another process with it is on the same machine."""
    try:
        file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise InvalidConfig((f"store.url: {name}: {exc.strerror}",)) from exc
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(file)
