"""What the leader's side and the processes' sides of spend caps send each other."""

from msgspec import Struct

from strowger_gateway.gateway.governance.spend_caps.standing import CapStanding
from strowger_gateway.gateway.routing.resilience.backend_hold import BackendHold


class BackendCosts(Struct, frozen=True, tag=True):
    """To the leader: what ended attempts have cost, 10⁻⁹ US dollars by backend.

    writer, batch: of their records. at: when they ended, Unix seconds, to the quarter of an hour.
    """

    writer: str
    batch: int
    at: float
    nanos: dict[str, int]


class CapsInForce(Struct, frozen=True, tag=True):
    """To processes: the holds of used up caps, and how far each cap is used."""

    holds: tuple[BackendHold, ...] = ()
    standings: tuple[CapStanding, ...] = ()
