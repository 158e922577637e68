"""Read what was used, by payer and period."""

from collections.abc import Sequence

from msgspec import Struct

from gateway.store.database import Session
from gateway.store.usage_rows import UsageCounts, UsagePayer, payers


class Usage(Struct, frozen=True):
    """What one payer has used in one period. period: its index."""

    period: int
    payer: UsagePayer
    counts: UsageCounts


_COUNTS = UsageCounts.__struct_fields__
_SUMS = ", ".join(f"CAST(SUM({name}) AS BIGINT)" for name in _COUNTS)
_SQL = f"SELECT payer, {_SUMS} FROM usage_sums WHERE slot >= ? AND slot < ? GROUP BY payer"
_Row = tuple[int, int, int, int, int, int, int, int, int]


def usage(session: Session, periods: Sequence[tuple[int, int]]) -> list[Usage]:
    """Return what was used in each period. periods: as of SqlStore.usage."""
    known = payers(session)
    return [
        Usage(place, known[id], UsageCounts(*counts))
        for place, (begin, end) in enumerate(periods)
        for id, *counts in session.rows(_Row, _SQL, begin, end)
    ]
