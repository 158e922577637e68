"""Who owns the slot of a connection, as the connection sees it."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.upstream.wire.connection import HttpConnection


class ConnectionOwner(Protocol):
    """Owner of a connection's slot."""

    def keep(self, connection: "HttpConnection") -> None:
        """The exchange is over and the connection can carry another."""
        ...

    def free(self, connection: "HttpConnection") -> None:
        """The exchange is over and so is its connection."""
        ...

    def forget(self, connection: "HttpConnection") -> None:
        """An idle connection is gone."""
        ...

    def suspect(self, since: float) -> None:
        """A connection was silent from `since`, a loop time, until its time was over."""
        ...
