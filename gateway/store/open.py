"""From `store.url` to a store that opens its database when it is first asked."""

from pathlib import Path

from gateway.config.schema_store import SQLITE
from gateway.store.database import Driver
from gateway.store.sql import SqlStore
from gateway.store.sqlite import SqliteDriver
from schemas.errors import InvalidConfig
from schemas.secret import Secret

NO_FILE = ":memory:"
"""https://www.sqlite.org/inmemorydb.html"""


def open_store(url: Secret) -> SqlStore:
    """Raises InvalidConfig for an address that cannot be one, or without the extra it needs."""
    return SqlStore(driver_of(url))


def open_existing(url: Secret) -> SqlStore:
    """For whoever only looks: a SQLite file that no gateway has made yet is empty, and not made.

    Raises InvalidConfig, as `open_store`.
    """
    return SqlStore(SqliteDriver(Path(NO_FILE))) if absent(url) else open_store(url)


def absent(url: Secret) -> str:
    """The SQLite file that no gateway has made yet; "" where there is one, or a server."""
    address = url.reveal()
    file = Path(address.removeprefix(SQLITE))
    made = file.exists() or not file.parent.is_dir()
    return str(file) if address.startswith(SQLITE) and not made else ""


def driver_of(url: Secret) -> Driver:
    """Raises InvalidConfig, as `open_store`."""
    address = url.reveal()
    if address.startswith(SQLITE):
        return SqliteDriver(Path(address.removeprefix(SQLITE)))
    try:
        from gateway.store.postgres import PostgresDriver
    except ImportError as exc:
        raise InvalidConfig(
            (
                "store.url: PostgreSQL needs psycopg; "
                "pip install 'strowger-gateway[postgres]', or use sqlite:///strowger.db",
            )
        ) from exc
    return PostgresDriver(address)
