"""The SQLite file holds user ids and comments, so no other user may read it."""

import os
import stat
from collections.abc import Generator
from pathlib import Path

import pytest

from strowger_gateway.gateway.storage.sql.sql import SqlStore
from strowger_gateway.gateway.storage.sql.sqlite import SqliteDriver


@pytest.fixture
def open_umask() -> Generator[None]:
    """Files are as open as a program makes them."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


@pytest.mark.usefixtures("open_umask")
def test_a_database_and_its_log_are_readable_only_by_our_user(tmp_path: Path) -> None:
    store = SqlStore(SqliteDriver(tmp_path / "strowger.db"))
    store.prepare()
    found = modes(tmp_path)
    store.close()

    assert found == {"strowger.db": 0o600, "strowger.db-wal": 0o600, "strowger.db-shm": 0o600}


@pytest.mark.usefixtures("open_umask")
def test_files_that_were_open_to_others_are_closed_to_them_and_it_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = SqlStore(SqliteDriver(tmp_path / "strowger.db"))
    first.prepare()
    for file in tmp_path.iterdir():
        file.chmod(0o644)

    second = SqlStore(SqliteDriver(tmp_path / "strowger.db"))
    second.prepare()
    found = modes(tmp_path)
    first.close()
    second.close()

    assert set(found.values()) == {0o600}
    assert "was readable by other users (mode 644)" in caplog.text


def test_a_missing_folder_is_reported_by_the_store(tmp_path: Path) -> None:
    store = SqlStore(SqliteDriver(tmp_path / "none" / "strowger.db"))

    with pytest.raises(Exception, match="unable to open database file"):
        store.prepare()


def test_a_folder_in_place_of_the_file_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)

    with pytest.raises(Exception, match="unable to open database file"):
        SqlStore(SqliteDriver(folder)).prepare()

    assert modes(tmp_path) == {"shared": 0o1777}
