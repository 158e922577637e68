"""Query recorded requests with their attempts."""

from collections.abc import Sequence

from msgspec import Struct

from gateway.store.database import Session, listed


class RecordedAttempt(Struct, frozen=True, kw_only=True):
    """An attempt; values and units as in AttemptRow."""

    backend: str
    role: str
    outcome: str
    ms: float


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """A request; values and units as in RequestRow. Attempts are in order."""

    request_id: str
    time: float
    status: int
    ms: float
    key: str
    surface: str
    task: str
    model: str
    route: str
    backend: str
    stream: bool
    error: str
    ttft_ms: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    experiment: str
    variant: str
    fallback: bool
    cache: str
    attempts: tuple[RecordedAttempt, ...] = ()


_Request = tuple[
    str,
    float,
    int,
    float,
    str,
    str,
    str,
    str,
    str,
    str,
    bool,
    str,
    float | None,
    int | None,
    int | None,
    float | None,
    str,
    str,
    bool,
    str,
]
_Attempt = tuple[str, str, str, str, float]
_FIELDS = RecordedRequest.__struct_fields__[:-1]
_COLUMNS = listed(_FIELDS)
_BEFORE = f"SELECT {_COLUMNS} FROM requests WHERE time < ? ORDER BY time DESC LIMIT ?"
_NAMED = f"SELECT {_COLUMNS} FROM requests WHERE request_id = ?"
_ATTEMPTS = """SELECT request_id, backend, role, outcome, ms FROM attempts
    WHERE request_id IN ({marks}) ORDER BY request_id, number"""
_AT_ONCE = 500


def before(session: Session, time: float, limit: int) -> list[RecordedRequest]:
    """Return the requests that ended before `time`, Unix seconds, newest first."""
    return _with_attempts(session, session.rows(_Request, _BEFORE, time, limit))


def by_id(session: Session, request_id: str) -> RecordedRequest | None:
    for one in _with_attempts(session, session.rows(_Request, _NAMED, request_id)):
        return one
    return None


def _with_attempts(session: Session, rows: Sequence[_Request]) -> list[RecordedRequest]:
    attempts: dict[str, list[RecordedAttempt]] = {row[0]: [] for row in rows}
    ids = list(attempts)
    for begin in range(0, len(ids), _AT_ONCE):
        some = ids[begin : begin + _AT_ONCE]
        sql = _ATTEMPTS.format(marks=", ".join("?" * len(some)))
        for request_id, backend, role, outcome, ms in session.rows(_Attempt, sql, *some):
            one = RecordedAttempt(backend=backend, role=role, outcome=outcome, ms=ms)
            attempts[request_id].append(one)
    return [
        RecordedRequest(
            request_id=row[0],
            time=row[1],
            status=row[2],
            ms=row[3],
            key=row[4],
            surface=row[5],
            task=row[6],
            model=row[7],
            route=row[8],
            backend=row[9],
            stream=row[10],
            error=row[11],
            ttft_ms=row[12],
            prompt_tokens=row[13],
            completion_tokens=row[14],
            cost_usd=row[15],
            experiment=row[16],
            variant=row[17],
            fallback=row[18],
            cache=row[19],
            attempts=tuple(attempts[row[0]]),
        )
        for row in rows
    ]
