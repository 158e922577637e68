"""Copy the chain of the audit log to `audit.file`, one JSON line per row, each once.

The place reached is kept next to the events that wait, and is also read from the file's last line,
so a killed process neither omits nor repeats a row. The file may be renamed or truncated at any
time: before each write, the copy goes on in the file that then has the name.
"""

import fcntl
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.audit.chain import AuditRow, ChainHead, line_of, row_of
from strowger_gateway.gateway.storage.sql.audit_rows import AuditRows

_POSITION: Final = "file-position"
_MODE: Final = 0o640
"""The group may read it: log shippers rarely run as the gateway's user."""

_LONGEST_LINE: Final = 256 * 1024
_BEGIN: Final = b'{"seq":'
_log = logging.getLogger("strowger.audit")


class _Position(Struct, frozen=True, kw_only=True):
    """The last copied row. file: where to."""

    file: str
    seq: int
    hash: str


_positions = msgspec.json.Decoder(_Position)


class AuditFile:
    """One file. failing: why the last copy failed, "" if it did not. copied: rows."""

    def __init__(self, path: Path, folder: Path) -> None:
        """folder: for the place that was reached."""
        self.failing = ""
        self.copied = 0
        self._path = path
        self._state = folder / _POSITION
        self._fd: int | None = None
        self._seen: tuple[int, int] | None = None
        self._last: ChainHead | None = None

    def copy(self, rows: AuditRows) -> None:
        """Copy all rows that the file does not have. Raises StoreUnavailable.

        A failure of the disk is logged once, and the next call continues.
        """
        try:
            self._copy(rows)
        except (OSError, ValueError) as exc:
            if not self.failing:
                _log.error(
                    "cannot write audit.file %s; rows wait in the store: %s", self._path, exc
                )
            self.failing = str(exc) or type(exc).__name__
            self._last = None  # another gateway may write the file from here on
            self.close()
            return
        if self.failing:
            _log.warning("writing audit.file %s again", self._path)
        self.failing = ""

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _copy(self, rows: AuditRows) -> None:
        self._reopen()
        last = self._last or self._start(rows)
        while found := rows.after(last.seq):
            self._reopen()
            self._append(found)
            last = self._last = ChainHead(seq=found[-1].seq, hash=found[-1].hash)
            self._keep(last)
            self.copied += len(found)
        self._last = last

    def _reopen(self) -> None:
        """Open the file that has the name now, unless it is open."""
        try:
            found = self._path.stat()
            named = (found.st_dev, found.st_ino)
        except FileNotFoundError:
            named = None
        if self._fd is not None and named == self._seen:
            return
        self.close()
        fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, _MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise OSError("another gateway writes it; give each its own audit.file") from None
        opened = os.fstat(fd)
        self._fd, self._seen = fd, (opened.st_dev, opened.st_ino)
        self._complete(fd)

    def _complete(self, fd: int) -> None:
        """Remove the beginning of a line that a killed process has left."""
        tail, begin = _tail(fd)
        torn = tail.rpartition(b"\n")[2]
        if not torn:
            return
        if torn.startswith(_BEGIN[: len(torn)]):
            os.ftruncate(fd, begin + len(tail) - len(torn))
        else:
            os.write(fd, b"\n")

    def _start(self, rows: AuditRows) -> ChainHead:
        """Return the last row that was copied; the beginning if the store has another chain."""
        found = max((self._kept(), self._last_line()), key=lambda one: one.seq)
        if found.seq == 0:
            return found
        head = rows.head()
        known = rows.after(found.seq - 1, 1)
        replaced = bool(known) and known[0].seq == found.seq and known[0].hash != found.hash
        if head.seq >= found.seq and not replaced:
            return found
        _log.error(
            "AUDIT LOG CHANGED: audit.file has row %d, hash %s, which the store's chain does not "
            "have: rows were removed, or the store was replaced; copying the whole chain",
            found.seq,
            found.hash,
        )
        return ChainHead(seq=0, hash="")

    def _kept(self) -> ChainHead:
        try:
            found = _positions.decode(self._state.read_bytes())
        except (FileNotFoundError, msgspec.DecodeError):
            return ChainHead(seq=0, hash="")
        if found.file != str(self._path):
            return ChainHead(seq=0, hash="")
        return ChainHead(seq=found.seq, hash=found.hash)

    def _last_line(self) -> ChainHead:
        assert self._fd is not None
        lines = _tail(self._fd)[0].splitlines()
        try:
            row = row_of(lines[-1] if lines else b"")
        except msgspec.DecodeError:
            return ChainHead(seq=0, hash="")
        return ChainHead(seq=row.seq, hash=row.hash)

    def _append(self, rows: Sequence[AuditRow]) -> None:
        """Append all or nothing."""
        assert self._fd is not None
        size = os.fstat(self._fd).st_size
        view = memoryview(b"".join(line_of(row) + b"\n" for row in rows))
        try:
            while view:
                view = view[os.write(self._fd, view) :]
            os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, size)
            raise

    def _keep(self, last: ChainHead) -> None:
        position = _Position(file=str(self._path), seq=last.seq, hash=last.hash)
        new = self._state.with_suffix(".new")
        self._state.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new.write_bytes(msgspec.json.encode(position))
        new.replace(self._state)


def _tail(fd: int) -> tuple[bytes, int]:
    """Return the end of the file, and where it begins."""
    size = os.fstat(fd).st_size
    begin = max(size - _LONGEST_LINE, 0)
    return os.pread(fd, size - begin, begin), begin
