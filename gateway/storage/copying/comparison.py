"""Make the rows of one table in the target equal to those of the source, and show that they are."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import sha256

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.storage.copying import pages
from strowger_gateway.gateway.storage.copying.faults import CopyFault
from strowger_gateway.gateway.storage.copying.pages import KeySpan
from strowger_gateway.gateway.storage.copying.source import CopySource
from strowger_gateway.gateway.storage.copying.tables import Cells, CopiedTable
from strowger_gateway.gateway.storage.copying.target import CopyTarget
from strowger_gateway.gateway.storage.copying.values import LeftOutRow, StorableRows, same
from strowger_gateway.gateway.storage.sql.database import Session
from strowger_gateway.gateway.storage.sql.errors import StoreRejected

RowsDone = Callable[[str, int], None]
"""Takes the name of a table and the number of its rows that a pass has handled since."""

_lines = msgspec.json.Encoder()


class TableResult(Struct, frozen=True, kw_only=True):
    """What one pass over a table has found.

    rows: in the target. changed: rows that the pass wrote or removed.
    checksum: the SHA-256 of the target's rows as JSON lines in the order of their key.
    """

    rows: int
    changed: int
    checksum: str


class TableComparison:
    """Fills and compares tables, one after the other, a page at a time."""

    def __init__(self, source: CopySource, target: CopyTarget, progress: RowsDone) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self.storable = StorableRows(strict=target.strict)

    def fill(self, table: CopiedTable) -> None:
        """Copy a table for the first time, from where an earlier run has ended."""
        after, _, done = self._target.progress(table)
        limits: list[int] = []
        while not done:
            limits = limits or self._source.fitting(table, KeySpan(after=after))
            limit = limits.pop(0)
            rows = self._source.read(table, KeySpan(after=after), limit)
            done = len(rows) < limit
            with self._target.writing() as session:
                self._insert(session, table, rows)
                self._target.move(session, table, rows, done)
            if rows:
                after = table.key_of(rows[-1])
            self._progress(table.name, len(rows))

    def compare(self, table: CopiedTable, since: int | None = None) -> TableResult:
        """Compare all rows, or those of imports since one, and correct the target.

        Raises CopyFault for rows that differ after they were written.
        """
        if since is None:
            self.storable.forget(table)
        found = self._pass(table, since)
        if since is None and found.changed and self._in_the_way(table):
            self.storable.forget(table)
            again = self._pass(table, since)
            return msgspec.structs.replace(again, changed=found.changed + again.changed)
        return found

    def _in_the_way(self, table: CopiedTable) -> bool:
        """Whether other rows of the target, which may be gone now, have kept rows out."""
        found = self.storable.left_out.values()
        return any(one.table == table.name and not one.column for one in found)

    def _pass(self, table: CopiedTable, since: int | None) -> TableResult:
        table = table if since is None else pages.by_import(table)
        digest, rows, changed = sha256(), 0, 0
        after, ends, limits = None, False, list[int]()
        while not ends:
            limits = limits or self._source.fitting(table, KeySpan(after=after, since=since))
            limit = limits.pop(0)
            want, through = self._page(table, KeySpan(after=after, since=since), limit)
            span = KeySpan(after=after, through=through, since=since)
            have = self._target.read(table, span, limit + 1 if table.unique else None)
            if table.unique and len(have) > limit:
                through = table.key_of(have[limit - 1])
                span = msgspec.structs.replace(span, through=through)
                have = have[:limit]
                limits.clear()  # the rest of these rows is next
                want = [row for row in want if table.key_of(row) <= through]  # type: ignore[operator]
            if not same(want, have):
                stored = self.storable.rows(table, want)
                if not same(stored, have):
                    have, wrote = self._correct(table, span, stored)
                    changed += wrote
            for row in have:
                digest.update(_lines.encode(row) + b"\n")
            rows += len(have)
            self._progress(table.name, len(want))
            ends, after = through is None, through
        return TableResult(rows=rows, changed=changed, checksum=digest.hexdigest())

    def _page(
        self, table: CopiedTable, span: KeySpan, limit: int
    ) -> tuple[list[Cells], Cells | None]:
        """Return the next rows and the key of the last one; `None` if they are all that follow."""
        if not table.key:
            return self._source.read(table, span), None
        rows = self._source.read(table, span, limit)
        if len(rows) < limit:
            return rows, None
        through = table.key_of(rows[-1])
        if not table.unique:  # more rows may have the last key
            whole = msgspec.structs.replace(span, through=through)
            rows = self._source.read(table, whole)
        return rows, through

    def _correct(
        self, table: CopiedTable, span: KeySpan, want: Sequence[Cells]
    ) -> tuple[list[Cells], int]:
        """Make the rows of a span equal; return them as they are then, and how many differed."""
        with self._target.writing() as session:
            have = pages.read(session, table, span)
            if not table.unique:
                pages.delete(session, table, span)
                missing, wrong = list(want), len(have)
            else:
                stale = {table.key_of(row): row for row in have}
                missing: list[Cells] = []
                for row in want:
                    known = stale.get(key := table.key_of(row))
                    if known is not None and same([known], [row]):
                        del stale[key]
                    else:
                        missing.append(row)
                pages.delete_keys(session, table, list(stale))
                wrong = len(stale)
            self._insert(session, table, missing)
            now = pages.read(session, table, span)
        left = {key for name, key in self.storable.left_out if name == table.name}
        if not same([row for row in want if table.identity_of(row) not in left], now):
            first = "" if not want else f" from {table.key_of(want[0])}"
            raise CopyFault(f"--to: rows of {table.name}{first} differ after they were written")
        return now, max(len(missing), wrong)

    def _insert(self, session: Session, table: CopiedTable, rows: Sequence[Cells]) -> None:
        """Insert rows; those that the target cannot hold are noted and left out."""
        if not rows:
            return
        with suppress(StoreRejected):
            pages.insert(session, table, rows)
            return
        stored = self.storable.rows(table, rows)
        with suppress(StoreRejected):
            pages.insert(session, table, stored)
            return
        for row in stored:
            try:
                pages.insert(session, table, [row])
            except StoreRejected as exc:
                shown = dict(zip(table.names, row, strict=True))
                self.storable.left_out[table.name, table.identity_of(row)] = LeftOutRow(
                    table=table.name, column="", why=str(exc).partition("\n")[0], row=shown
                )
