"""The export, stopped before and after every write to its target: the same rows, once each."""

from pathlib import Path

import pytest

from strowger_gateway.gateway.storage.parquet.export import Export
from strowger_gateway.gateway.storage.parquet.target import Folder
from strowger_gateway.gateway.storage.sql.sql import SqlStore
from tests.gateway.storage.parquet.test_export import Recorded, complete, export


class Crash(Exception):
    """Stands for a kill."""


class CrashingFolder(Folder):
    """A folder whose process dies at a write, before it or after it."""

    def __init__(self, path: Path, at: int, *, after: bool) -> None:
        super().__init__(path)
        self._left = at
        self._after = after

    def write(self, name: str, content: bytes) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Crash
        super().write(name, content)
        if self._left == 0:
            raise Crash


@pytest.mark.parametrize(
    "after", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["before", "after"]
)
def test_rows_are_exported_once_whichever_write_is_the_last(
    store: SqlStore, tmp_path: Path, *, after: bool
) -> None:
    recorded = Recorded(store)
    crashes = 0
    for at in range(1, 13):
        recorded.add(3)
        target = CrashingFolder(tmp_path / "out", at, after=after)
        try:
            Export(store.database, target, 3).run()
        except Crash:
            crashes += 1
        finally:
            target.close()
    export(store, tmp_path / "out")

    assert crashes > 6
    assert complete(tmp_path / "out", recorded.ids)
