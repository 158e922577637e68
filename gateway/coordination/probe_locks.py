"""Probe leases among the processes of one machine: locks on bytes of a file that all have open.

The kernel keeps such locks, answers within a microsecond, and releases those of a process that
dies, however it dies. https://www.man7.org/linux/man-pages/man2/F_SETLK.2const.html
"""

import asyncio
import fcntl
import os
from collections.abc import Collection
from hashlib import blake2b
from pathlib import Path
from types import TracebackType

PROBES = "probes.lock"
"""The name of the lock file in the gateway's run folder."""

ACCESS_LOG_LOCK = "access-log.lock"
"""The same for LogFileLock."""

LINGER_S = 0.25
"""Time that a lock is held after its probe, so that the result reaches the others first."""


class FileLeases:
    """File-lock leases held by this process.

    Do not open the file elsewhere in the process: closing it releases every lock.
    """

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._leases: dict[str, FileLease] = {}

    def lease(self, key: str) -> "FileLease":
        """Return the lease of a key; the same key is the same lease in every process."""
        if key not in self._leases:
            digest = blake2b(key.encode(), digest_size=7).digest()
            self._leases[key] = FileLease(self._descriptor, int.from_bytes(digest, "big"))
        return self._leases[key]

    def forget(self, keys: Collection[str]) -> None:
        """Drop the leases of these keys; those that are held stay."""
        for key in keys:
            if key in self._leases and not self._leases[key].held:
                del self._leases[key]

    def close(self) -> None:
        os.close(self._descriptor)


class LocalLeases:
    """The leases of one of two holders in a process: the server and the gateway synchronisation."""

    def __init__(self, holders: "dict[str, LocalLeases]") -> None:
        """holders: shared by both."""
        self._holders = holders

    def lease(self, key: str) -> "LocalLease":
        return LocalLease(self, self._holders, key)

    def forget(self, keys: Collection[str]) -> None:
        """Nothing is kept of leases that are not held."""


class LocalLease:
    """See Lease."""

    def __init__(self, mine: LocalLeases, holders: dict[str, LocalLeases], key: str) -> None:
        self._mine = mine
        self._holders = holders
        self._key = key

    def available(self) -> bool:
        """True if `acquire` would succeed now."""
        return self._holders.get(self._key, self._mine) is self._mine

    def acquire(self) -> bool:
        return self._holders.setdefault(self._key, self._mine) is self._mine

    def release(self) -> None:
        """Release the lease; does nothing if it is not held."""
        if self._holders.get(self._key) is self._mine:
            del self._holders[self._key]

    drop = release


class LogFileLock:
    """A context manager that one process at a time can enter; a waiting thread sleeps.

    It keeps log lines whole: a long write to a pipe arrives in pieces, and the pieces of another
    process could come between them.
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
        self._held = False
        self._ending: asyncio.TimerHandle | None = None

    @property
    def held(self) -> bool:
        """Whether this process holds it."""
        return self._held

    def available(self) -> bool:
        """True if `acquire` would succeed now."""
        if self._held:
            return True
        if not self._lock():
            return False
        self._unlock()
        return True

    def acquire(self) -> bool:
        """Take the lease until `release`; False if another process holds it."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        self._held = self._held or self._lock()
        return self._held

    def release(self) -> None:
        """Release the lease after LINGER_S; does nothing if it is not held."""
        if self._held and self._ending is None:
            self._ending = asyncio.get_running_loop().call_later(LINGER_S, self._give)

    def drop(self) -> None:
        """Release the lease immediately; does nothing if it is not held."""
        if self._ending is not None:
            self._ending.cancel()
        if self._held:
            self._give()

    def _give(self) -> None:
        self._ending = None
        self._held = False
        self._unlock()

    def _lock(self) -> bool:
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._place)
        except OSError:
            return False
        return True

    def _unlock(self) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, self._place)
