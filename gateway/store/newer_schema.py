"""Whether a SQLite file has a newer program's tables, found without changing the file."""

import sqlite3
from contextlib import closing
from pathlib import Path

from gateway.config.schema_store import SQLITE
from gateway.store.schema import VERSION, check_version
from schemas.secret import Secret


def refuse_newer(url: Secret) -> None:
    """Raises InvalidConfig. A server's database, and what cannot be read, is not looked at."""
    address = url.reveal()
    file = Path(address.removeprefix(SQLITE)).absolute()
    if not address.startswith(SQLITE) or not file.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute(VERSION).fetchone()
    except sqlite3.Error:  # the gateway serves without its store, too, and says so
        return
    if found is not None:
        check_version(int(found[0]))
