"""Sessions of /admin that were ended while the store was away, kept until they expire.

They are in a file next to the records that wait for the store, so every worker and every gateway
with the same `store.spool` knows them, and they survive a restart.
"""

import fcntl
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

FILE = "ended-sessions"
_log = logging.getLogger("strowger")


class EndedSessions:
    """A file with one line per session: its id in hexadecimal, and its original expiry time."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        """folder: created with the first line. clock: Unix seconds."""
        self._folder = folder
        self._file = folder / FILE
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._ended: Mapping[bytes, int] = {}

    def has(self, session: bytes) -> bool:
        """Return whether this or another process ended the session.

        The file is read again only after it changed. While it cannot be read, the last known
        sessions apply.
        """
        try:
            found = self._file.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen != self._seen:
                self._ended = {**self._ended, **_parsed(self._file.read_text(encoding="ascii"))}
                self._seen = seen
        except FileNotFoundError:
            return session in self._ended
        except (OSError, ValueError) as exc:
            _log.error("cannot read ended sessions in %s: %s", self._file, exc)
        return session in self._ended

    def all(self) -> Mapping[bytes, int]:
        """Return what is known: by session, until when it would have lasted, Unix seconds."""
        self.has(b"")
        return self._ended

    def add(self, session: bytes, until: int) -> None:
        """End a session. until: Unix seconds. Raises OSError if other processes cannot see it."""
        self._ended = {**self._ended, session: until}
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._folder / f"{FILE}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = _parsed(self._file.read_text(encoding="ascii")) if self._file.exists() else {}
            self._write({**known, session: until})
        finally:
            os.close(lock)

    def _write(self, ended: Mapping[bytes, int]) -> None:
        """Replace the file atomically, without sessions that would have expired by now."""
        at = self._clock()
        lines = [f"{one.hex()} {until}\n" for one, until in ended.items() if until > at]
        new = self._folder / f"{FILE}.new"
        fd = os.open(new, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with open(fd, "w", encoding="ascii") as out:
            out.writelines(lines)
            out.flush()
            os.fsync(fd)
        new.replace(self._file)


def _parsed(text: str) -> dict[bytes, int]:
    """Raises ValueError."""
    pairs = (line.split() for line in text.splitlines())
    return {bytes.fromhex(session): int(until) for session, until in pairs}
