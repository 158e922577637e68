"""Read requests with findings from the store."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.content.guardrails.findings.column import FINDINGS
from strowger_gateway.gateway.storage.sql.database import Database

MOST_READ: Final = 20_000
"""Requests with findings, the newest; of more, `FoundRequests.complete` is false."""

_COLUMNS: Final = 'time, request_id, status, key, team, "user", model, backend, attributes'
_SQL: Final = f"""SELECT {_COLUMNS} FROM requests
    WHERE time >= ? AND time < ? AND attributes LIKE ? ORDER BY time DESC LIMIT ?"""
_MARK: Final = f'%"{FINDINGS.name}":"%'


class FoundRequest(Struct, frozen=True, kw_only=True):
    """A request in which guardrails have found something. found: as recorded."""

    time: float
    id: str
    status: int
    key: str
    team: str
    user: str
    model: str
    backend: str
    found: str


class FoundRequests(Struct, frozen=True, kw_only=True):
    """The newest first."""

    requests: Sequence[FoundRequest]
    complete: bool


class _Attributes(Struct, frozen=True):
    guardrails: str = ""


_Row = tuple[float, str, int, str, str, str, str, str, str]
_attributes = msgspec.json.Decoder(_Attributes)


def requests_with_findings(database: Database, since: float, until: float) -> FoundRequests:
    """since, until: Unix seconds. Raises StoreUnavailable."""
    with database.reading() as session:
        rows = session.rows(_Row, _SQL, since, until, _MARK, MOST_READ + 1)
    return FoundRequests(
        requests=[
            FoundRequest(
                time=row[0],
                id=row[1],
                status=row[2],
                key=row[3],
                team=row[4],
                user=row[5],
                model=row[6],
                backend=row[7],
                found=_attributes.decode(row[8]).guardrails,
            )
            for row in rows[:MOST_READ]
        ],
        complete=len(rows) <= MOST_READ,
    )
