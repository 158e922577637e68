"""Interface of a cluster that runs replicas. Its calls block, and are made from one thread."""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

KeeperState = Literal["starting", "ready", "failed", "ending", "ended"]


class KeeperReport(Struct, frozen=True, kw_only=True):
    """What the keeper of an engine says.

    state: after `failed`, the engine is started again. detail: its last line of status.
    starts: how often this actor has started the engine process. pid: 0 while there is no process.
    """

    state: KeeperState
    address: str = ""
    detail: str = ""
    host: str = ""
    starts: int = 0
    pid: int = 0


class Placed(Struct, frozen=True, kw_only=True):
    """A replica that the cluster knows.

    node:   that has its reservation; "" while it waits for one. lost: it has a reservation and no
    keeper that could be restarted. report: `None` if the keeper does not answer now.
    """

    name: str
    node: str = ""
    lost: bool = False
    report: KeeperReport | None = None


class Where(Struct, frozen=True, kw_only=True):
    """Nodes for a replica. only: empty for any."""

    only: frozenset[str] = frozenset()
    avoid: frozenset[str] = frozenset()


ANYWHERE = Where()


class ClusterFailed(Exception):
    """The cluster cannot be used now; the text is the reason, with a remedy."""


class Cluster(Protocol):
    """All methods raise ClusterFailed."""

    def look(self) -> Sequence[Placed]:
        """Return the replicas of the pool, also those of an earlier process."""
        ...

    def place(self, name: str, where: Where) -> None:
        """Reserve resources and start a replica there, once there are some. Does not wait."""
        ...

    def nodes(self) -> Sequence[str]:
        """Return the nodes that are large enough for a replica, whether or not they are in use."""
        ...

    def lacking(self) -> str:
        """Why there are no such nodes, with the remedy."""
        ...

    def end(self, name: str) -> None:
        """Have an engine finish its answers and end. Does not wait."""
        ...

    def remove(self, name: str) -> None:
        """Remove keeper and reservation, whatever state they are in."""
        ...
