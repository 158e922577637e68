"""Detect the tables of another version in a SQLite file without changing the file."""

import sqlite3
from contextlib import closing
from pathlib import Path

from strowger_gateway.gateway.config.schema_store import SQLITE
from strowger_gateway.gateway.storage.sql.schema import VERSION, check_version
from strowger_gateway.schemas.secret import Secret


def refuse_other_tables(url: Secret) -> None:
    """Raises InvalidConfig for tables that a newer or unreleased version has created.

    Servers and unreadable files are not checked.
    """
    address = url.reveal()
    path = Path(address.removeprefix(SQLITE))
    file = path.absolute()
    if not address.startswith(SQLITE) or not file.is_file():
        return
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute(VERSION).fetchone()
    except sqlite3.Error:  # the gateway also serves without its store, and logs that
        return
    if found is not None:
        check_version(found, str(path))
