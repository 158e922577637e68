"""Calls of one gateway to the limits in Redis, and the uses that wait for it to answer again."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gateway.coordination.limit_script import ScriptItem
from gateway.coordination.limit_shards import Place
from gateway.limits.messages import LimitAsk, LimitUses, Use


class LimitCall(Struct, eq=False):
    """One call of the script, and what becomes of its answer. ask: `None` for a report."""

    worker: int
    holder: str
    places: tuple[Place, ...]
    items: tuple[ScriptItem, ...]
    ask: LimitAsk | None


class MissedUses(Struct, eq=False):
    """What was used of one place while Redis did not answer: by expiry, and beyond the leases."""

    uses: dict[int, int] = {}
    over: int = 0


Reported = tuple[Place, tuple[Use, ...], int, int, int]
"""What a process reports of one place: used, given back, overdrawn, and what is running, or -1."""


def by_place(uses: Sequence[LimitUses]) -> Iterator[Reported]:
    """Yield what processes report, without places of which there is nothing."""
    for one in uses:
        account, back, over = (one.limit, one.subject), one.returned, one.overdrawn
        if one.requests or back.requests or over.requests:
            yield (*account, "requests"), one.requests, back.requests, over.requests, -1
        if one.tokens or back.tokens or over.tokens:
            yield (*account, "tokens"), one.tokens, back.tokens, over.tokens, one.running
        if back.seats:
            yield (*account, "concurrent"), (), back.seats, 0, -1
