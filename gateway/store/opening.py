"""From `store.url` to a store that opens its database when it is first asked."""

from pathlib import Path

from gateway.config.store import SQLITE
from gateway.store.database import Driver
from gateway.store.sql import SqlStore
from gateway.store.sqlite import SqliteDriver
from schemas.errors import InvalidConfig
from schemas.secret import Secret


def open_store(url: Secret) -> SqlStore:
    """Raises InvalidConfig for an address that cannot be one, or without the extra it needs."""
    return SqlStore(driver_of(url))


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
