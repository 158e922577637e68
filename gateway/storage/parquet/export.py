"""Export new rows in steps, each of which a killed process repeats with the same result.

A step is one page of a table. The manifest first says where the page ends, then its files are
written, then the manifest says that the step is done. After a kill in between, the same rows are
read again, and files that exist are complete. So every row is in exactly one file.
"""

import time
from collections.abc import Callable, Mapping
from secrets import token_hex

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.storage.parquet.parts import by_day, parquet
from strowger_gateway.gateway.storage.parquet.tables import (
    TABLES,
    Page,
    Position,
    RecordTable,
    newest_batch,
    page,
)
from strowger_gateway.gateway.storage.parquet.target import ExportTarget
from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.schemas.errors import InvalidConfig

MANIFEST = "_strowger/manifest.json"
"""Readers of partitioned folders ignore names that begin with `_`."""

PART_ROWS = 50_000
_VERSION = 1


class Progress(Struct, frozen=True, kw_only=True):
    """Of one table. steps: that are done. planned: the end of the step in progress, if any."""

    done: Position = Position()
    planned: Position | None = None
    steps: int = 0
    rows: int = 0
    files: int = 0


class Manifest(Struct, frozen=True, kw_only=True):
    """store: the identity of the database whose rows these are.

    ended: of the last run that exported everything, Unix seconds; 0 before the first.
    """

    version: int
    store: str
    ended: float = 0.0
    tables: Mapping[str, Progress] = {}


class Exported(Struct, frozen=True, kw_only=True):
    """What one run has added. ended: of the last run that exported everything, Unix seconds."""

    rows: Mapping[str, int]
    files: int
    ended: float


_encode = msgspec.json.Encoder(order="sorted").encode
_decoder = msgspec.json.Decoder(Manifest)


class Export:
    """One run. Raises InvalidConfig for a target of another store; StoreUnavailable; OSError."""

    def __init__(
        self, database: Database, target: ExportTarget, part_rows: int = PART_ROWS
    ) -> None:
        """part_rows: the most of one step."""
        self._database = database
        self._target = target
        self._part_rows = part_rows
        self._manifest = Manifest(version=_VERSION, store="")

    def run(
        self, report: Callable[[str], None] = lambda _: None, *, fresh_s: float = 0.0
    ) -> Exported:
        """Export everything that the store has now.

        report: gets a line per step. fresh_s: do nothing if the last run ended less long ago.
        """
        newest = self._open()
        before = self._manifest
        if 0 <= time.time() - before.ended < fresh_s:  # the clock may be set back
            return Exported(rows={}, files=0, ended=before.ended)
        for table in TABLES:
            while self._step(table, Position(batch=newest), report):
                pass
        self._save(replace(self._manifest, ended=time.time()))
        old = {table.name: before.tables.get(table.name, Progress()) for table in TABLES}
        new = {table.name: self._progress(table) for table in TABLES}
        return Exported(
            rows={name: new[name].rows - old[name].rows for name in new},
            files=sum(new[name].files - old[name].files for name in new),
            ended=self._manifest.ended,
        )

    def _open(self) -> int:
        """Read the manifest, or begin one; return the newest batch."""
        store, newest = self._identity()
        if not self._target.exists(MANIFEST):
            self._save(Manifest(version=_VERSION, store=store))
            return newest
        try:
            self._manifest = _decoder.decode(self._target.read(MANIFEST))
        except msgspec.DecodeError as exc:
            raise InvalidConfig((f"--to: {MANIFEST} cannot be read: {exc}",)) from exc
        if self._manifest.version != _VERSION:
            raise InvalidConfig((f"--to: {MANIFEST} is of another version of strowger",))
        if self._manifest.store != store:
            why = "--to: has the export of another database; choose another folder"
            raise InvalidConfig((why,))
        last = max((one.done.batch for one in self._manifest.tables.values()), default=0)
        if last > newest:
            why = (
                "--to: the export is ahead of the database, which an older backup has replaced; "
                "choose another folder"
            )
            raise InvalidConfig((why,))
        return newest

    def _identity(self) -> tuple[str, int]:
        with self._database.reading() as session:
            newest = newest_batch(session)
            ((known,),) = session.rows(tuple[str], "SELECT store FROM import_batch")
        if known:
            return known, newest
        with self._database.writing() as session:
            session.run("UPDATE import_batch SET store = ? WHERE store = ''", token_hex(8))
        return self._identity()

    def _step(self, table: RecordTable, newest: Position, report: Callable[[str], None]) -> bool:
        """Export one page; false if there was nothing left."""
        progress = self._progress(table)
        if progress.planned is None:
            found = self._page(table, progress.done, newest, self._part_rows)
            if not found.rows:
                return False
            progress = replace(progress, planned=found.end)
            self._record(table, progress)
        else:
            found = self._page(table, progress.done, progress.planned, self._part_rows)
        assert progress.planned is not None
        step, files = progress.steps + 1, 0
        for day, rows in sorted(by_day(table, found.rows).items()):
            name = f"{table.name}/day={day}/part-{step:08d}.parquet"
            files += 1
            if not self._target.exists(name):
                self._target.write(name, parquet(table, rows))
        done = Progress(
            done=progress.planned,
            steps=step,
            rows=progress.rows + len(found.rows),
            files=progress.files + files,
        )
        self._record(table, done)
        report(f"{table.name}: {len(found.rows):,} rows in {files} files")
        return True

    def _page(self, table: RecordTable, after: Position, until: Position, most: int) -> Page:
        with self._database.reading() as session:
            return page(session, table, after, until, most)

    def _progress(self, table: RecordTable) -> Progress:
        return self._manifest.tables.get(table.name, Progress())

    def _record(self, table: RecordTable, progress: Progress) -> None:
        tables = {**self._manifest.tables, table.name: progress}
        self._save(replace(self._manifest, tables=tables))

    def _save(self, manifest: Manifest) -> None:
        self._target.write(MANIFEST, _encode(manifest))
        self._manifest = manifest
