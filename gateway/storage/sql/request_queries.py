"""Query recorded requests with their attempts."""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.storage.sql.database import Session, listed
from strowger_gateway.gateway.storage.sql.rows import REQUEST_COLUMNS, RecordedFields


class RecordedAttempt(Struct, frozen=True, kw_only=True):
    """An attempt; values and units as in AttemptRow."""

    backend: str
    role: str
    outcome: str
    ms: float
    provider_key: str = ""


class RecordedRequest(RecordedFields, frozen=True, kw_only=True):
    """A request as the store has it. Attempts are in order.

    total_cost_usd: as in RequestRow.
    """

    total_cost_usd: float | None = None
    attempts: tuple[RecordedAttempt, ...] = ()


_Attempt = tuple[str, str, str, str, float, str]
_FIELDS = tuple(column.name for column in REQUEST_COLUMNS if column.name not in ("epoch", "unit"))
_OBJECTS = tuple(
    column.name for column in REQUEST_COLUMNS if column.kind == "json" and column.name in _FIELDS
)
COLUMNS: Final = listed(_FIELDS)
"""Of a request, as `with_attempts` takes its row; the first are `time` and `request_id`."""
_BEFORE = f"SELECT {COLUMNS} FROM requests WHERE time < ? ORDER BY time DESC LIMIT ?"
_NAMED = f"SELECT {COLUMNS} FROM requests WHERE request_id = ?"
_ATTEMPTS = """SELECT request_id, backend, role, outcome, ms, provider_key FROM attempts
    WHERE request_id IN ({marks}) ORDER BY request_id, number"""
_AT_ONCE = 500


def before(session: Session, time: float, limit: int) -> list[RecordedRequest]:
    """Return the requests that ended before `time`, Unix seconds, newest first."""
    return with_attempts(session, session.rows(tuple[object, ...], _BEFORE, time, limit))


def by_id(session: Session, request_id: str) -> RecordedRequest | None:
    for one in with_attempts(session, session.rows(tuple[object, ...], _NAMED, request_id)):
        return one
    return None


def with_attempts(session: Session, rows: Sequence[tuple[object, ...]]) -> list[RecordedRequest]:
    """Return the requests of rows, in order, each with its attempts."""
    values = [dict(zip(_FIELDS, row, strict=True)) for row in rows]
    for one in values:
        for name in _OBJECTS:
            text = one[name]
            one[name] = msgspec.json.decode(text) if isinstance(text, str) else None
    requests = msgspec.convert(values, list[RecordedRequest], strict=False)
    attempts: dict[str, list[RecordedAttempt]] = {one.request_id: [] for one in requests}
    ids = list(attempts)
    for begin in range(0, len(ids), _AT_ONCE):
        some = ids[begin : begin + _AT_ONCE]
        sql = _ATTEMPTS.format(marks=", ".join("?" * len(some)))
        for request_id, backend, role, outcome, ms, key in session.rows(_Attempt, sql, *some):
            one = RecordedAttempt(
                backend=backend, role=role, outcome=outcome, ms=ms, provider_key=key
            )
            attempts[request_id].append(one)
    return [replace(one, attempts=tuple(attempts[one.request_id])) for one in requests]
