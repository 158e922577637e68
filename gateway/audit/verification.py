"""Find every row of the audit log that was changed, removed, inserted or moved."""

from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.audit.chain import NO_HASH, AuditRow, ChainHead, detail_of, hash_of

PRUNE: Final = "audit.prune"
THROUGH, THROUGH_HASH = "through", "hash"
"""Facts of an `audit.prune` row: the last removed row, and its hash."""

MOST_PROBLEMS: Final = 100


class ChainProblem(Struct, frozen=True, kw_only=True):
    """A fault of the chain. seq: the first row that it is about."""

    seq: int
    problem: str


class ChainCheck:
    """Takes the rows of a chain in order of `seq`, then finds the faults of the whole.

    rows: how many there were. first, last: the first row, and the head that the rows lead to.
    problems: the first MOST_PROBLEMS; further ones are counted in `more`.
    """

    def __init__(self, expected: str = "") -> None:
        """expected: the hash of a row that the chain must have; "": none is known."""
        self.rows = self.more = 0
        self.first: AuditRow | None = None
        self.last = ChainHead(seq=0, hash=NO_HASH)
        self.problems: list[ChainProblem] = []
        self._expected = expected
        self._found = not expected
        self._anchors: dict[int, str] = {}

    def add(self, row: AuditRow) -> None:
        """Check the next row against itself and the one before it."""
        if self.first is None:
            self.first = row
        else:
            self._follow(row)
        if hash_of(row) != row.hash:
            self.fault(row.seq, f"row {row.seq} was changed: its hash is wrong")
        elif row.action == PRUNE and row.actor_kind == "gateway":
            self._note_anchor(row)
        self._found = self._found or row.hash == self._expected
        self.rows += 1
        self.last = ChainHead(seq=row.seq, hash=row.hash)

    def finish(self, head: ChainHead) -> None:
        """Check the beginning and the end. head: as the store has it, apart from the rows."""
        self._check_beginning()
        self._check_end(head)
        if not self._found and self._expected not in self._anchors.values():
            self.fault(
                self.last.seq,
                f"no row has the hash {self._expected}: rows were removed from the end, or all "
                "rows since were replaced",
            )

    def fault(self, seq: int, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(ChainProblem(seq=seq, problem=problem))
        else:
            self.more += 1

    def _follow(self, row: AuditRow) -> None:
        last = self.last
        if row.seq > last.seq + 1:
            self.fault(last.seq + 1, f"{_rows(last.seq + 1, row.seq - 1)} missing")
        elif row.seq <= last.seq:
            self.fault(row.seq, f"row {row.seq} is out of order: it follows row {last.seq}")
        elif row.prev != last.hash:
            self.fault(
                row.seq,
                f"row {row.seq} does not follow row {last.seq}: one of them was replaced",
            )

    def _note_anchor(self, row: AuditRow) -> None:
        facts = detail_of(row).facts
        through = facts.get(THROUGH, "")
        if through.isdecimal():
            self._anchors[int(through)] = facts.get(THROUGH_HASH, "")

    def _check_beginning(self) -> None:
        """Rows are missing at the beginning unless a row of the rest says what was pruned."""
        row = self.first
        if row is None:
            return
        before = ChainHead(seq=row.seq - 1, hash=row.prev)
        if before.seq == 0:
            if before.hash != NO_HASH:
                self.fault(1, "row 1 was replaced: it names a row before it")
        elif before.seq not in self._anchors:
            self.fault(1, f"{_rows(1, before.seq)} missing, and no {PRUNE} row names them")
        elif self._anchors[before.seq] != before.hash:
            self.fault(
                row.seq, f"row {row.seq} does not follow the pruned row {before.seq}: replaced"
            )

    def _check_end(self, head: ChainHead) -> None:
        last = self.last
        if head.seq > last.seq:
            self.fault(last.seq + 1, f"{_rows(last.seq + 1, head.seq)} missing at the end")
        elif head != last:
            self.fault(last.seq, f"row {last.seq} is not the last row that was appended: replaced")


def _rows(first: int, last: int) -> str:
    return f"row {first} is" if first == last else f"rows {first} to {last} are"
