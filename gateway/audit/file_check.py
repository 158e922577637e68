"""Compare copies of the audit log with its chain: rows that only a copy has were removed."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.audit.chain import AuditRow, ChainHead, hash_of, line_of, row_of
from strowger_gateway.gateway.audit.verification import MOST_PROBLEMS, ChainProblem

_LONGEST_LINE: Final = 1024 * 1024


class _Line(Struct, frozen=True, kw_only=True):
    """A line of a copy. where: the file and the line's number."""

    where: str
    row: AuditRow


class FileCheck:
    """Takes the rows of the chain in order, and reads the copies next to them.

    rows: how many rows of the copies were compared with the chain.
    problems: the first MOST_PROBLEMS; further ones are counted in `more`.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        """files: the oldest first."""
        self.rows = self.more = 0
        self.problems: list[ChainProblem] = []
        self._lines = self._read(files)
        self._last = 0
        self._next = next(self._lines, None)

    def compare(self, row: AuditRow) -> None:
        """Compare the next row of the chain with its copy, if there is one."""
        while (line := self._next) is not None and line.row.seq <= row.seq:
            if line.row.seq == row.seq:
                self.rows += 1
                if line.row.hash != row.hash:
                    self._fault(row.seq, f"row {row.seq} differs from its copy in {line.where}")
            self._advance()

    def finish(self, head: ChainHead) -> None:
        """Report rows of the copies after the chain's last one."""
        if (line := self._next) is not None:
            self._fault(
                line.row.seq,
                f"{line.where} has row {line.row.seq}, and the store's chain ends at row "
                f"{head.seq}: rows were removed from its end, or the chain was replaced",
            )
        while self._next is not None:
            self._advance()

    def _advance(self) -> None:
        self._next = next(self._lines, None)

    def _read(self, files: Sequence[Path]) -> Iterator[_Line]:
        """Yield the rows of the copies; those that were changed there are only reported."""
        for path in files:
            with path.open("rb") as file:
                number = 0
                while text := file.readline(_LONGEST_LINE):
                    number += 1
                    line = self._parsed(text.rstrip(b"\n"), f"{path.name} line {number}")
                    if line is not None:
                        self._follow(line)
                        yield line

    def _parsed(self, text: bytes, where: str) -> _Line | None:
        try:
            row = row_of(text)
        except msgspec.DecodeError:
            self._fault(self._last, f"{where} is not a row of the audit log")
            return None
        if hash_of(row) != row.hash or line_of(row) != text:
            self._fault(row.seq, f"{where}, row {row.seq}, was changed: its hash is wrong")
        return _Line(where=where, row=row)

    def _follow(self, line: _Line) -> None:
        seq = line.row.seq
        if self._last and seq > self._last + 1:
            self._fault(
                self._last + 1,
                f"rows {self._last + 1} to {seq - 1} are missing before {line.where}",
            )
        self._last = max(seq, self._last)

    def _fault(self, seq: int, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(ChainProblem(seq=seq, problem=problem))
        else:
            self.more += 1
