"""Calls of one gateway to the limits in Redis, and the uses that wait for it to answer again."""

from msgspec import Struct

from strowger_gateway.gateway.governance.leases.messages import LeaseAsk, Place
from strowger_gateway.gateway.governance.limits.over_gateways.limit_script import ScriptItem


class LimitCall(Struct, eq=False):
    """One call of the script, and what becomes of its answer. ask: `None` for a report."""

    worker: int
    holder: str
    places: tuple[Place, ...]
    items: tuple[ScriptItem, ...]
    ask: LeaseAsk | None


class MissedUses(Struct, eq=False):
    """What was used of one place while Redis did not answer: by expiry, and beyond the leases."""

    uses: dict[int, int] = {}
    over: int = 0
