"""Sum up usage by day, key, model and backend."""

from datetime import UTC, datetime

from msgspec import Struct

from gateway.store.database import Session
from gateway.store.import_rows import DAY_S


class UsageRow(Struct, frozen=True, kw_only=True):
    """The usage of one day (UTC, YYYY-MM-DD), API key, model name and backend.

    requests: answered by this backend. served_…: usage and cost of those answers, and the number of
    them with unknown cost.
    attempts: all, including failed ones, hedges and mirrors. prompt_tokens, completion_tokens,
    cost_usd: of all attempts; 0 if unknown. unpriced: attempts with tokens and unknown cost.
    """

    day: str
    key: str
    model: str
    backend: str
    requests: int
    served_prompt_tokens: int
    served_completion_tokens: int
    served_usd: float
    served_unpriced: int
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    unpriced: int


_SQL = """SELECT a.day, r.key_name, r.route, a.backend,
    SUM(CASE WHEN a.role = 'served' THEN 1 ELSE 0 END),
    CAST(COALESCE(SUM(CASE WHEN a.role = 'served' THEN a.prompt_tokens END), 0) AS BIGINT),
    CAST(COALESCE(SUM(CASE WHEN a.role = 'served' THEN a.completion_tokens END), 0) AS BIGINT),
    COALESCE(SUM(CASE WHEN a.role = 'served' THEN a.cost_usd END), 0),
    COUNT(*),
    CAST(COALESCE(SUM(a.prompt_tokens), 0) AS BIGINT),
    CAST(COALESCE(SUM(a.completion_tokens), 0) AS BIGINT),
    COALESCE(SUM(a.cost_usd), 0),
    SUM(CASE WHEN a.cost_usd IS NULL AND a.source <> '' THEN 1 ELSE 0 END),
    SUM(CASE WHEN a.cost_usd IS NULL AND a.source <> '' AND a.role = 'served' THEN 1 ELSE 0 END)
    FROM attempts a JOIN requests r ON r.request_id = a.request_id WHERE a.time >= ?
    GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"""


def usage(session: Session, since: float) -> list[UsageRow]:
    """Return the usage since `since`, Unix seconds."""
    kind = tuple[int, str, str, str, int, int, int, float, int, int, int, float, int, int]
    return [
        UsageRow(
            day=datetime.fromtimestamp(row[0] * DAY_S, UTC).date().isoformat(),
            key=row[1],
            model=row[2],
            backend=row[3],
            requests=row[4],
            served_prompt_tokens=row[5],
            served_completion_tokens=row[6],
            served_usd=row[7],
            attempts=row[8],
            prompt_tokens=row[9],
            completion_tokens=row[10],
            cost_usd=row[11],
            unpriced=row[12],
            served_unpriced=row[13],
        )
        for row in session.rows(kind, _SQL, since)
    ]
