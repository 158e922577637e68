"""What each backend has cost in a time, of all gateways that share the store."""

from collections.abc import Mapping
from typing import Final

from strowger_gateway.gateway.storage.sql.database import Database

_COST: Final = (
    "SELECT p.backend, CAST(SUM(s.nanos) AS BIGINT) FROM usage_sums s"
    " JOIN usage_payers p ON p.id = s.payer WHERE s.slot >= ? AND s.slot < ? GROUP BY p.backend"
)


def backend_spend(database: Database, begin: int, end: int) -> Mapping[str, int]:
    """Return 10⁻⁹ US dollars by backend, PROVIDER/MODEL, with failed attempts, hedges and copies.

    begin, end: Unix seconds; slots from `begin` until before `end` count. Raises StoreUnavailable.
    """
    with database.reading() as session:
        return dict(session.rows(tuple[str, int], _COST, begin, end))
