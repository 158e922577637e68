"""Read from the store how the cache has answered requests."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Database

_SQL: Final = """SELECT route, backend, cache, COUNT(*), COALESCE(SUM(prompt_tokens), 0),
    COALESCE(SUM(completion_tokens), 0) FROM requests
    WHERE time >= ? AND time < ? AND cache <> '' GROUP BY route, backend, cache"""


class CacheUseCount(Struct, frozen=True, array_like=True):
    """Requests of one model with one outcome. backend: that answered, or has made the answer."""

    model: str
    backend: str
    outcome: str
    requests: int
    prompt_tokens: int
    completion_tokens: int


def cache_uses(database: Database, since: float, until: float) -> Sequence[CacheUseCount]:
    """since, until: Unix seconds. Raises StoreUnavailable."""
    with database.reading() as session:
        return session.rows(CacheUseCount, _SQL, since, until)
