"""Who owns the slot of a connection, as the connection sees it."""

from typing import Protocol, TypeVar

C_contra = TypeVar("C_contra", contravariant=True)


class ConnectionOwner(Protocol[C_contra]):
    """Owner of the slot of a connection of one type."""

    def keep(self, connection: C_contra) -> None:
        """The exchange is over and the connection can carry another."""
        ...

    def free(self, connection: C_contra) -> None:
        """The exchange is over and so is its connection."""
        ...

    def forget(self, connection: C_contra) -> None:
        """An idle connection is gone."""
        ...

    def suspect(self, since: float) -> None:
        """A connection was silent from `since`, a loop time, until its time was over."""
        ...
