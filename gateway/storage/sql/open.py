"""Create the store from `store.url`; it opens its database on first use."""

from pathlib import Path

from strowger_gateway.gateway.config.schema_store import SQLITE
from strowger_gateway.gateway.storage.sql.database import Driver
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.sql.sqlite import SqliteDriver
from strowger_gateway.schemas.errors import InvalidConfig
from strowger_gateway.schemas.secret import Secret

NO_FILE = ":memory:"
"""https://www.sqlite.org/inmemorydb.html"""


def open_store(url: Secret) -> SqlStore:
    """Create the store. Raises InvalidConfig for a malformed address, or a missing extra."""
    return SqlStore(driver_of(url))


def open_existing(url: Secret) -> SqlStore:
    """Open the store to read: a missing SQLite file is treated as empty and is not created.

    Raises InvalidConfig, as `open_store`.
    """
    return SqlStore(SqliteDriver(Path(NO_FILE))) if absent(url) else open_store(url)


def absent(url: Secret) -> str:
    """Return the path of the SQLite file if it is missing; "" if it exists, or for a server."""
    address = url.reveal()
    file = Path(address.removeprefix(SQLITE))
    made = file.exists() or not file.parent.is_dir()
    return str(file) if address.startswith(SQLITE) and not made else ""


def driver_of(url: Secret) -> Driver:
    """Create the driver for an address. Raises InvalidConfig, as `open_store`."""
    address = url.reveal()
    if address.startswith(SQLITE):
        return SqliteDriver(Path(address.removeprefix(SQLITE)))
    try:
        from strowger_gateway.gateway.storage.sql.postgres import PostgresDriver
    except ImportError as exc:
        raise InvalidConfig(
            (
                "store.url: PostgreSQL needs psycopg; "
                "pip install 'strowger-gateway[postgres]', or use sqlite:///strowger.db",
            )
        ) from exc
    return PostgresDriver(address)
