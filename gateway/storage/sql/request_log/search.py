"""Search the recorded requests: a page of them, their totals, and those that are new.

The work of a call is bounded. It reads one index backwards in time and tests the other filters on
what it finds, by chunks: ranges of time in which the index has so many rows. A page that is not
full when enough has been read says how far the search has come, and the next one goes on there.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.storage.sql.database import Database, Session, Value, marks, pieces
from strowger_gateway.gateway.storage.sql.request_log.conditions import (
    ERROR_SQL,
    FAILED_SQL,
    Test,
    Way,
    tests_of,
)
from strowger_gateway.gateway.storage.sql.request_log.filters import RequestFilter
from strowger_gateway.gateway.storage.sql.request_queries import (
    COLUMNS,
    RecordedRequest,
    with_attempts,
)

_Row = tuple[object, ...]
_EVERYTHING: Final = Way(where="1 = 1", clock="time")
_SUMS: Final = (
    f"COUNT(*), COUNT(*) FILTER (WHERE {FAILED_SQL}), COUNT(*) FILTER (WHERE {ERROR_SQL}),"
    " COALESCE(SUM(c.total_cost_usd), 0.0),"
    " CAST(COALESCE(SUM(c.prompt_tokens), 0) AS BIGINT),"
    " CAST(COALESCE(SUM(c.completion_tokens), 0) AS BIGINT),"
    " COUNT(*) FILTER (WHERE c.total_cost_usd IS NULL AND c.completion_tokens IS NOT NULL)"
)
_Sums = tuple[int, int, int, float, int, int, int]


class SearchBounds(Struct, frozen=True, kw_only=True):
    """Rows of an index.

    chunks: that a page reads, one after the other. The first is small, since it is often enough.
    total:  that totals read.
    dense:  of several indexes, that is read whose so many rows reach back furthest.
    """

    chunks: tuple[int, ...] = (1_000, 10_000, 20_000, 20_000)
    total: int = 10_000
    dense: int = 1_000


class ListPlace(Struct, frozen=True, kw_only=True):
    """A place in the list: after it are requests that ended before `time`, or then with lower ids.

    request_id: "" if all requests of that time are before the place.
    """

    time: float
    request_id: str = ""


class RequestPage(Struct, frozen=True, kw_only=True):
    """requests: the newest first. next: where to go on; `None` at the end.

    searched: there are perhaps more; the search has come to `next`, and has not found as many as
    were wanted.
    """

    requests: Sequence[RecordedRequest]
    next: ListPlace | None = None
    searched: bool = False


class Totals(Struct, frozen=True, kw_only=True):
    """Sums over the requests that match.

    failed:   without those whose client disconnected. errors: of these, those of backends or of the
              gateway itself.
    cost_usd: of all attempts, as far as prices are known. unpriced: requests with tokens and
              without a known cost.
    since:    there are too many, and these are the newest, back to this time, Unix seconds;
              `None`: these are all.
    """

    requests: int = 0
    failed: int = 0
    errors: int = 0
    cost_usd: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unpriced: int = 0
    since: float | None = None


class NewRequests(Struct, frozen=True, kw_only=True):
    """requests: in the order of their import. batch: of the last import that is among them."""

    requests: Sequence[RecordedRequest]
    batch: int


class _Span(Struct, frozen=True, kw_only=True):
    """since: included. until: not included. after: a place in the list."""

    since: float | None
    until: float | None
    after: ListPlace | None = None

    def sql(self, alias: str, clock: str) -> tuple[str, tuple[Value, ...]]:
        """Return a condition. clock: the column with the time."""
        where, values = list[str](), list[Value]()
        if self.since is not None:
            where.append("{0} >= ?")
            values.append(self.since)
        if self.until is not None:
            where.append("{0} < ?")
            values.append(self.until)
        if self.after is not None:
            where.append("{0} <= ? AND ({0} < ? OR {1} < ?)")
            values += (self.after.time, self.after.time, self.after.request_id)
        text = " AND ".join(["1 = 1", *where])
        return text.format(f"{alias}.{clock}", f"{alias}.request_id"), tuple(values)


_BOUNDS: Final = SearchBounds()


class RequestSearch:
    """The recorded requests in one database. Every method blocks, and raises StoreUnavailable."""

    def __init__(self, database: Database, bounds: SearchBounds = _BOUNDS) -> None:
        self._database = database
        self._bounds = bounds

    def page(
        self, wanted: RequestFilter, limit: int, after: ListPlace | None = None
    ) -> RequestPage:
        """Return the requests that match, the newest first, from a place on."""
        span = _Span(since=wanted.since, until=wanted.until, after=after)
        with self._database.reading() as session:
            ways, others = _planned(session, wanted, span, self._bounds.dense)
            rows, reached = list[_Row](), list[ListPlace]()
            for way in ways:
                found, end = _newest(session, way, others, span, limit + 1, self._bounds.chunks)
                rows += found
                reached += [] if end is None else [end]
            rows.sort(key=_place, reverse=True)
            end = max(reached, key=lambda one: one.time, default=None)
            if end is not None:
                rows = [row for row in rows if _place(row)[0] >= end.time]
            if searched := len(rows) <= limit:
                following = end
            else:
                time, request_id = _place(rows[limit - 1])
                following = ListPlace(time=time, request_id=request_id)
            requests = with_attempts(session, rows[:limit])
        return RequestPage(
            requests=requests, next=following, searched=searched and following is not None
        )

    def totals(self, wanted: RequestFilter) -> Totals:
        """Add up the requests that match, or the newest of them."""
        return self.totals_and_missing(wanted, ())[0]

    def totals_and_missing(
        self, wanted: RequestFilter, ids: Sequence[str]
    ) -> tuple[Totals, Collection[str]]:
        """As `totals`, and those of the requests with these ids that the store lacks just then."""
        span = _Span(since=wanted.since, until=wanted.until)
        with self._database.reading() as session:
            ways, others = _planned(session, wanted, span, self._bounds.dense)
            ends = [_end(session, way, span, self._bounds.total) for way in ways]
            since = max((one for one in ends if one is not None), default=None)
            if since is not None:
                span = replace(span, since=since)
            sums = [_sums(session, way, others, span) for way in ways]
            missing = _missing(session, ids)
        names = Totals.__struct_fields__
        added = [sum(column) for column in zip(*sums, strict=True)]
        return Totals(**dict(zip(names, added, strict=False)), since=since), missing

    def newest_batch(self) -> int:
        """Return the number of the last import."""
        with self._database.reading() as session:
            return session.rows(tuple[int], "SELECT number FROM import_batch")[0][0]

    def imported_after(self, batch: int, limit: int) -> NewRequests:
        """Return requests of later imports, whole imports of `limit` requests or one import.

        Imports take turns, so nothing is ever added to an import that this has returned.
        """
        with self._database.reading() as session:
            last = session.rows(tuple[int], "SELECT number FROM import_batch")[0][0]
            rows = session.rows(_Row, _IMPORTED, batch, limit)
            if len(rows) == limit:
                last = _int(rows[-1][-1])
                rows = session.rows(_Row, _IMPORTED_UNTIL, batch, last)
            return NewRequests(
                requests=with_attempts(session, [row[:-1] for row in rows]), batch=last
            )


_IMPORTED = (
    f"SELECT {COLUMNS}, batch FROM requests WHERE batch > ? ORDER BY batch, request_id LIMIT ?"
)
_IMPORTED_UNTIL = (
    f"SELECT {COLUMNS}, batch FROM requests WHERE batch > ? AND batch <= ?"
    " ORDER BY batch, request_id"
)


def _planned(
    session: Session, wanted: RequestFilter, span: _Span, dense_rows: int
) -> tuple[Sequence[Way], Sequence[Test]]:
    """Choose the index to read. Return its ways, and the tests of what they find.

    That is the first whose rows in the span are few, or else of a test that is dear, or the one
    whose newest rows reach back furthest. A database would choose by statistics, and take the index
    by time for a value that is frequent but not now.
    """
    found = list(tests_of(wanted))
    indexed = [one for one in found if one.ways and not one.late]
    indexed = indexed or [one for one in found if one.ways]
    if not indexed:
        return (_EVERYTHING,), found
    best, least = indexed[0], float("inf")
    for one in indexed if len(indexed) > 1 else ():
        ends = [_end(session, way, span, dense_rows) for way in one.ways]
        dense = max((end for end in ends if end is not None), default=None)
        if dense is None:
            best = one
            break
        if one.dear:
            dense = 0.0
        if dense < least:
            best, least = one, dense
    return best.ways, [one for one in found if one is not best or not one.exact]


def _end(session: Session, way: Way, span: _Span, rows: int) -> float | None:
    """Return the time of the last of so many rows; `None` if there are fewer."""
    if way.few:
        return None
    within, values = span.sql("i", way.clock)
    sql = (
        f"SELECT i.{way.clock} FROM {way.table} i WHERE {way.where} AND {within}"
        f" ORDER BY i.{way.clock} DESC LIMIT 1 OFFSET {rows - 1}"
    )
    for (time,) in session.rows(tuple[float], sql, *way.values, *values):
        return time
    return None


def _newest(
    session: Session,
    way: Way,
    others: Sequence[Test],
    span: _Span,
    limit: int,
    chunks: Sequence[int],
) -> tuple[list[_Row], ListPlace | None]:
    """Return the newest rows that match, and where the search stopped if these are too few."""
    if not others and way.table == "requests":
        return _chunk(session, way, others, span, limit), None
    rows = list[_Row]()
    for size in chunks:
        end = _end(session, way, span, size)
        chunk = span if end is None else replace(span, since=end)
        rows += _chunk(session, way, others, chunk, limit - len(rows))
        if end is None or len(rows) == limit:
            return rows, None
        span = replace(span, after=ListPlace(time=end))
    return rows, span.after


def _chunk(
    session: Session, way: Way, others: Sequence[Test], span: _Span, limit: int
) -> list[_Row]:
    source, values = _source(way, others, span, limit)
    order = f"c.{way.clock} DESC, c.request_id DESC"
    sql = f"SELECT {_C_COLUMNS} FROM {source} ORDER BY {order} LIMIT {limit}"
    return session.rows(_Row, sql, *values)


def _sums(session: Session, way: Way, others: Sequence[Test], span: _Span) -> _Sums:
    source, values = _source(way, others, span, _ALL)
    return session.rows(_Sums, f"SELECT {_SUMS} FROM {source}", *values)[0]


def _missing(session: Session, ids: Sequence[str]) -> Collection[str]:
    missing = set(ids)
    for some in pieces(ids):
        sql = f"SELECT request_id FROM requests WHERE request_id IN ({marks(some)})"
        missing.difference_update(id for (id,) in session.rows(tuple[str], sql, *some))
    return missing


_ALL = 1_000_000_000
"""More rows than there are. A LIMIT keeps a database from moving conditions into a subquery, where
it might choose another index for them."""


def _source(
    way: Way, others: Sequence[Test], span: _Span, limit: int
) -> tuple[str, tuple[Value, ...]]:
    """Return what follows FROM: requests `c` of a way that match."""
    tests = [(way.beyond, way.beyond_values)] if way.beyond else []
    if way.few:
        tests.append(span.sql("c", way.clock))
        span = _Span(since=None, until=None)
    within, values = span.sql("i", way.clock)
    values = (*way.values, *values)
    tests += [(one.sql, one.values) for one in others]
    columns = "*" if way.table == "requests" else "DISTINCT i.time, i.request_id"
    most = _ALL if tests or way.table != "requests" else limit
    source = (
        f"(SELECT {columns} FROM {way.table} i WHERE {way.where} AND {within}"
        f" ORDER BY i.{way.clock} DESC, i.request_id DESC LIMIT {most})"
    )
    if way.table == "requests":
        source += " c"
    else:
        source += " f JOIN requests c ON c.request_id = f.request_id"
    if tests:
        source += f" WHERE {' AND '.join(sql for sql, _ in tests)}"
    return source, (*values, *_joined(values for _, values in tests))


def _joined(values: Iterable[tuple[Value, ...]]) -> Iterator[Value]:
    for some in values:
        yield from some


_C_COLUMNS = ", ".join(f"c.{column}" for column in COLUMNS.split(", "))


def _place(row: _Row) -> tuple[float, str]:
    time, request_id = row[:2]
    assert isinstance(time, (int, float))
    assert isinstance(request_id, str)
    return time, request_id


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
