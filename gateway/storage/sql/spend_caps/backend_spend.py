"""What each backend has cost in a time, of all gateways that share the store."""

from collections.abc import Collection, Mapping
from typing import Final

from strowger_gateway.gateway.storage.sql.database import Database, Session

_COST: Final = (
    "SELECT p.backend, CAST(SUM(s.nanos) AS BIGINT) FROM usage_sums s"
    " JOIN usage_payers p ON p.id = s.payer WHERE s.slot >= ? AND s.slot < ? GROUP BY p.backend"
)


_BATCHES: Final = "SELECT writer, batch FROM spend_writers"

Window = tuple[int, int]
"""Unix seconds: slots from the first until before the second count."""


def backend_spend(database: Database, begin: int, end: int) -> Mapping[str, int]:
    """Return 10⁻⁹ US dollars by backend, PROVIDER/MODEL, with failed attempts, hedges and copies.

    begin, end: of a Window. Raises StoreUnavailable.
    """
    with database.reading() as session:
        return _spend(session, (begin, end))


def read_spend(
    database: Database, windows: Collection[Window]
) -> tuple[Mapping[Window, Mapping[str, int]], Mapping[str, int]]:
    """Return the same of several windows, and by writer the last batch that is in all of them.

    As of one moment. Raises StoreUnavailable.
    """
    with database.reading() as session:
        batches = dict(session.rows(tuple[str, int], _BATCHES))
        return {one: _spend(session, one) for one in windows}, batches


def _spend(session: Session, window: Window) -> Mapping[str, int]:
    return dict(session.rows(tuple[str, int], _COST, *window))
