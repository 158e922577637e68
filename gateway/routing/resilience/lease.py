"""The right to probe a backend, which one process holds at a time."""

from typing import Protocol


class Lease(Protocol):
    """The right to probe one backend; one process holds it at a time."""

    def available(self) -> bool:
        """Whether `acquire` would succeed now."""
        ...

    def acquire(self) -> bool:
        """Take the lease; false if another process holds it."""
        ...

    def release(self) -> None:
        """Give the lease back."""
        ...


class _UncontendedLease:
    """The lease in a single process."""

    def available(self) -> bool:
        return True

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        """No other process waits for it."""


UNCONTENDED: Lease = _UncontendedLease()
