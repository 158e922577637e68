"""Copy a whole database to another one: fill, compare, close, compare what has changed since.

Gateways serve all the time. The last pass admits no writer to the source, whose gateways then
buffer their records as when a store is unreachable, and continue on the target after a restart.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct

from strowger_gateway.gateway.audit.chain import ChainHead
from strowger_gateway.gateway.audit.event import Actor, AuditEvent
from strowger_gateway.gateway.audit.verification import ChainCheck
from strowger_gateway.gateway.storage.copying.comparison import TableComparison, TableResult
from strowger_gateway.gateway.storage.copying.faults import CopyFault
from strowger_gateway.gateway.storage.copying.source import CopySource
from strowger_gateway.gateway.storage.copying.tables import CopiedTable, tables
from strowger_gateway.gateway.storage.copying.target import CopyTarget
from strowger_gateway.gateway.storage.copying.values import LeftOutRow
from strowger_gateway.gateway.storage.sql.audit_rows import AuditRows
from strowger_gateway.schemas.secret import Secret

CopyEnding = Literal["keep", "open", "switch"]
"""keep: the target stays closed, for a later run. open: it is a copy of its own from then on.
switch: it continues the source, which is closed for ever."""

_CATCH_UP: Final = 3
"""Passes before the last one, at most, that go on while there is much to correct."""

_LITTLE: Final = 1_000
"""Corrected rows."""


class CopyProgress(Protocol):
    """What an operator sees of a run."""

    def phase(self, words: str, rows: int) -> None:
        """A pass begins over so many rows, about."""
        ...

    def rows(self, table: str, count: int) -> None: ...


class CopyResult(Struct, frozen=True, kw_only=True):
    """The result of a run.

    tables:   what the comparison found, by name; `checksum` is "" where only rows since the last
              full pass were compared. changed: texts and numbers that had to be changed, by table,
              column and reason.
    head, chain_rows, chain_faults: of the audit log in the target; the source has the same faults.
    closed_s: how long the source admitted no writer.
    """

    tables: Mapping[str, TableResult]
    changed: Mapping[tuple[str, str, str], int]
    left_out: Sequence[LeftOutRow]
    head: ChainHead
    chain_rows: int
    chain_faults: Sequence[str]
    closed_s: float


class StoreCopy:
    """One run. Close it at the end."""

    def __init__(self, source: Secret, target: Secret) -> None:
        """Raises InvalidConfig for databases that cannot be copied, and StoreUnavailable."""
        self._target = CopyTarget(target)
        self.target_name = self._target.where
        self._source = CopySource(source, self.target_name)
        self.source_name = self._source.where
        if self.source_name == self.target_name:
            raise CopyFault("--to: is the database of --from")

    @property
    def done(self) -> bool:
        """Whether an earlier run has switched already."""
        return self._source.moved and self._target.complete()

    def run(
        self,
        ending: CopyEnding,
        actor: Actor,
        shown: CopyProgress,
        left_out: Callable[[Sequence[LeftOutRow]], None],
    ) -> CopyResult:
        """Copy everything, verify it, and end as told.

        left_out: takes the rows that the target cannot hold before anything ends, once; it may
                  raise to end the run, with the source as it was.
        Raises CopyFault, StoreUnavailable and InvalidConfig; another run continues.
        """
        source, target = self._source, self._target
        target.begin(source.where)
        work = TableComparison(source, target, shown.rows)
        counts = source.counts(tables())
        shown.phase("copying", sum(counts.values()))
        for table in tables():
            _, rows, done = target.progress(table)
            shown.rows(table.name, rows)
            if not done:
                work.fill(table)
        since = 0
        compared: dict[str, TableResult] = {}
        for _ in range(_CATCH_UP):
            since = source.imports()
            shown.phase("comparing", sum(source.counts(tables()).values()))
            compared = {table.name: work.compare(table) for table in tables()}
            if sum(one.changed for one in compared.values()) <= _LITTLE:
                break
        growing = sum(compared[table.name].rows for table in tables() if table.grows)
        rest = sum(one.rows for one in compared.values()) - growing
        shown.phase("comparing, closed for writers", rest)
        with source.held():
            began = time.monotonic()
            compared |= {table.name: self._last(work, table, since) for table in tables()}
            check = self._chain()
            rejected = list(work.storable.left_out.values())
            left_out(rejected)
            facts = {"from": source.where, "rows": str(sum(one.rows for one in compared.values()))}
            event = AuditEvent.by(
                actor, "store.copy", target=target.where, reason=ending, facts=facts
            )
            if ending == "switch":
                source.close_for(target.where)
        if ending != "keep":
            target.open(event)
        return CopyResult(
            tables=compared,
            changed=dict(work.storable.changed),
            left_out=rejected,
            head=check.last,
            chain_rows=check.rows,
            chain_faults=[one.problem for one in check.problems],
            closed_s=time.monotonic() - began,
        )

    def close(self) -> None:
        self._target.close()
        self._source.close()

    def _last(self, work: TableComparison, table: CopiedTable, since: int) -> TableResult:
        """Compare a table while nothing can change: all of it, or what was imported since."""
        if not table.grows:
            return work.compare(table)
        recent = work.compare(table, since)
        have = self._target.counts((table,))[table.name]
        left = sum(name == table.name for name, _ in work.storable.left_out)
        if have + left != self._source.counts((table,))[table.name]:  # some were too old
            return work.compare(table)
        return TableResult(rows=have, changed=recent.changed, checksum="")

    def _chain(self) -> ChainCheck:
        check = ChainCheck()
        for row in AuditRows(self._target.database).chain():
            if isinstance(row, ChainHead):
                check.finish(row)
            else:
                check.add(row)
        return check
