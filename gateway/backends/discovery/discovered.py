"""What the leader has found, as all serving processes know it."""

from msgspec import Struct

from strowger_gateway.gateway.backends.discovery.source import HostPort
from strowger_gateway.gateway.config.schema.discovery import DiscoverReplicas


class ReplicaSet(Struct, frozen=True, kw_only=True):
    """The replicas of one `discover` section.

    source: for people. known: a look-up has succeeded. problem: why the last one failed; "" if it
    did not. refused: addresses that are not used, with the reason.
    """

    discover: DiscoverReplicas
    source: str
    endpoints: tuple[HostPort, ...] = ()
    known: bool = False
    problem: str = ""
    refused: tuple[str, ...] = ()


class Discovered(Struct, frozen=True, kw_only=True, tag=True):
    """All sets. Also the message that the leader sends to its workers."""

    sets: tuple[ReplicaSet, ...] = ()

    def of(self, discover: DiscoverReplicas) -> tuple[HostPort, ...]:
        """The endpoints of a section; none if it is not known."""
        for one in self.sets:
            if one.discover == discover:
                return one.endpoints
        return ()

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong, by source, for /readyz and the page."""
        return {
            one.source: f"{one.problem}; {len(one.endpoints)} known replicas are used"
            for one in self.sets
            if one.problem
        }


NOTHING_DISCOVERED = Discovered()
