"""What a worker asks its leader about limits, besides leases: see gateway/governance/leases.

The quantities of a lease's place are those of `Quantity`.
"""

from msgspec import Struct

from strowger_gateway.gateway.governance.limits.standing import LimitPlace


class StandingsAsked(Struct, frozen=True, kw_only=True, tag=True):
    """What is used at these places; answered by a tuple of LimitStanding."""

    places: tuple[LimitPlace, ...]
