"""Who of several processes may probe a backend: a lock on a byte of a file that all have open.

The kernel keeps such locks, answers within a microsecond, and takes them back from a process that
dies, however it dies. https://www.man7.org/linux/man-pages/man2/F_SETLK.2const.html
"""

import asyncio
import fcntl
import os
from hashlib import blake2b
from pathlib import Path
from types import TracebackType

PROBES = "probes.lock"
"""The file's name, in the folder of the gateway's run."""

LINGER_S = 0.25
"""A lock is kept so long after its probe, for the news of how it went to reach the others."""


class FileLeases:
    """Of one process. Nothing else in the process may open the file: closing it frees all."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._leases: dict[str, FileLease] = {}

    def lease(self, key: str) -> "FileLease":
        """The same key is the same lease in every process."""
        if key not in self._leases:
            digest = blake2b(key.encode(), digest_size=7).digest()
            self._leases[key] = FileLease(self._descriptor, int.from_bytes(digest, "big"))
        return self._leases[key]

    def close(self) -> None:
        os.close(self._descriptor)


class LocalLeases:
    """Of one of two that share a process: what serves there, and who speaks for other replicas."""

    def __init__(self, holders: "dict[str, LocalLeases]") -> None:
        """holders: the same for both."""
        self._holders = holders

    def lease(self, key: str) -> "LocalLease":
        return LocalLease(self, self._holders, key)


class LocalLease:
    """See Lease."""

    def __init__(self, mine: LocalLeases, holders: dict[str, LocalLeases], key: str) -> None:
        self._mine = mine
        self._holders = holders
        self._key = key

    def available(self) -> bool:
        """Whether `take` would succeed now."""
        return self._holders.get(self._key, self._mine) is self._mine

    def acquire(self) -> bool:
        return self._holders.setdefault(self._key, self._mine) is self._mine

    def release(self) -> None:
        """A lease that is not held stays so."""
        if self._holders.get(self._key) is self._mine:
            del self._holders[self._key]

    drop = release


class LogFileLock:
    """A context in which one process is at a time; a thread that waits for it sleeps.

    What is written to a pipe in one piece may be long, and arrives in several: those of another
    process would fall between them.
    """

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def __enter__(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)


class FileLease:
    """See Lease."""

    def __init__(self, descriptor: int, place: int) -> None:
        self._descriptor = descriptor
        self._place = place
        self._mine = False
        self._ending: asyncio.TimerHandle | None = None

    def available(self) -> bool:
        """Whether `take` would succeed now."""
        if self._mine:
            return True
        if not self._lock():
            return False
        self._unlock()
        return True

    def acquire(self) -> bool:
        """Whether it is this process's now, until `give`."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        self._mine = self._mine or self._lock()
        return self._mine

    def release(self) -> None:
        """In a moment; a lease that is not held stays so."""
        if self._mine and self._ending is None:
            self._ending = asyncio.get_running_loop().call_later(LINGER_S, self._give)

    def drop(self) -> None:
        """Now; a lease that is not held stays so."""
        if self._ending is not None:
            self._ending.cancel()
        if self._mine:
            self._give()

    def _give(self) -> None:
        self._ending = None
        self._mine = False
        self._unlock()

    def _lock(self) -> bool:
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._place)
        except OSError:
            return False
        return True

    def _unlock(self) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, self._place)
