"""Detect the tables of a newer version in a SQLite file without changing the file."""

import sqlite3
from contextlib import closing
from pathlib import Path

from gateway.config.schema_store import SQLITE
from gateway.store.schema import VERSION, check_version
from schemas.secret import Secret


def refuse_newer(url: Secret) -> None:
    """Raises InvalidConfig for newer tables. Servers and unreadable files are not checked."""
    address = url.reveal()
    file = Path(address.removeprefix(SQLITE)).absolute()
    if not address.startswith(SQLITE) or not file.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute(VERSION).fetchone()
    except sqlite3.Error:  # the gateway also serves without its store, and logs that
        return
    if found is not None:
        check_version(int(found[0]))
