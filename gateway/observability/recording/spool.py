"""The spool: the folder in which rows wait for the store, one file per writer, and its locks.

A writer holds a lock on its file for as long as it lives, and the kernel releases it however the
writer dies. A file that can be locked is therefore finished: no process will append to it. Names
begin with the time, so their order is the order in which the files were created.
"""

import fcntl
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from strowger_gateway.gateway.observability.recording.frames import HEAD
from strowger_gateway.gateway.observability.recording.spool_owner import claim

MIB = 1024 * 1024
_ENDING, _UNBORN, _DAMAGED = ".rows", ".new", ".damaged"
_STALE_TEMP_S = 3600.0
_ROTATE = 16 * MIB


class SpoolFull(OSError):
    """The spool has reached its maximum size."""


class SpoolFile:
    """The file of one writer. Raises OSError on disk errors; earlier writes are kept."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.size = len(HEAD)
        self.written_at = time.monotonic()
        self._fd = fd

    def append(self, *parts: bytes) -> None:
        """Append all or nothing: after a failure, the next bytes overwrite the partial write."""
        at = self.size + os.pwritev(self._fd, parts, self.size)
        end = self.size + sum(map(len, parts))
        while at < end:
            at += os.pwrite(self._fd, b"".join(parts)[at - end :], at)
        self.size = end
        self.written_at = time.monotonic()

    def sync(self) -> None:
        """Flush to the disk. Raises OSError, also if the file has been removed."""
        os.fdatasync(self._fd)
        if not os.fstat(self._fd).st_nlink:
            raise FileNotFoundError(f"{self.path} was removed")

    def close(self) -> None:
        """Release the lock, which marks the file as finished."""
        os.close(self._fd)


class Spool:
    """A folder of spool files, created with the first row.

    max_bytes: limit for all files; a writer starts a new file after an eighth of that, or 16 MiB.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = 1024 * MIB,
        setting: str = "store.max_spool_bytes",
        owner: str = "",
    ) -> None:
        """setting: of max_bytes, for the log. owner: the only store whose records it may hold, see
        `spool_owner`; "" does not check that.
        """
        self._setting = setting
        self._owner = owner
        self.folder = folder
        self._max_bytes = max_bytes
        self.rotate_bytes = min(_ROTATE, max_bytes // 8)

    def create(self) -> SpoolFile:
        """Create a file that is locked before other processes can see it. Raises OSError."""
        self._make_folder()
        name = f"{time.time_ns():020d}-{os.getpid()}-{os.urandom(8).hex()}"
        path = self.folder / f"{name}{_UNBORN}"
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.pwrite(fd, HEAD, 0)
            path = path.rename(path.with_suffix(_ENDING))
            _sync_folder(self.folder)
        except OSError:
            os.close(fd)
            raise
        return SpoolFile(path, fd)

    def _make_folder(self) -> None:
        """Create the folder, and the one around it, for this user only.

        Raises ForeignSpool, which is an OSError, if it is another store's.
        """
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.mkdir(exist_ok=True, mode=0o700)
        if self._owner:
            claim(self.folder, self._owner)

    def check_room(self) -> None:
        """Raises SpoolFull. Each writer may exceed the limit by the size of one write."""
        if self.size() >= self._max_bytes:
            raise SpoolFull(f"{self.folder} has reached {self._setting}")

    def size(self) -> int:
        """Return the bytes of all files."""
        # Each write asks for it, and `sizes` takes five times as long.
        try:
            with os.scandir(self.folder) as entries:
                return sum(_size(one) for one in entries if one.name.endswith(_ENDING))
        except FileNotFoundError:
            return 0

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each file, by name."""
        return {path.name: _size(path) for path in self.files()}

    def waiting_bytes(self, positions: Mapping[str, int]) -> int:
        """Return the bytes after these positions: the store has those before them, by file."""
        return sum(max(size - positions.get(name, 0), 0) for name, size in self.sizes().items())

    def files(self) -> list[Path]:
        """Return the files with rows, oldest first."""
        return sorted(self.folder.glob(f"*{_ENDING}"))

    @contextmanager
    def import_lock(self) -> Generator[bool]:
        """Try to lock the spool for importing until the block ends; yield False if it is locked."""
        self._make_folder()
        fd = os.open(self.folder / "importer.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            yield _locked(fd)
        finally:
            os.close(fd)

    def sweep(self) -> None:
        """Remove the incomplete files of writers that died while creating them."""
        for path in self.folder.glob(f"*{_UNBORN}"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _STALE_TEMP_S:
                    path.unlink()


@contextmanager
def reading(path: Path) -> Generator[tuple[int, bool]]:
    """Yield a file's descriptor, and whether the file is finished. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd, _locked(fd)
    finally:
        os.close(fd)


def remove(path: Path) -> None:
    """Remove a finished file whose rows are all in the store."""
    path.unlink(missing_ok=True)
    _sync_folder(path.parent)


def quarantine(path: Path) -> Path:
    """Rename a damaged file so that it is not imported, and keep it for inspection."""
    return path.rename(path.with_suffix(_DAMAGED))


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _size(file: "Path | os.DirEntry[str]") -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
