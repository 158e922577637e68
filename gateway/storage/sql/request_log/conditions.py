"""Filters as SQL: what a row must fulfil, and the index by which such rows are found.

The alias of the requests is `c`.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Value
from strowger_gateway.gateway.storage.sql.request_log.filters import (
    ID_PREFIX,
    RequestFilter,
    request_id_of,
)
from strowger_gateway.gateway.storage.sql.request_log.indexes import FAILED
from strowger_gateway.gateway.storage.sql.traffic.counting import OWN_RULES

_LAST: Final = "\U0010ffff"


class Way(Struct, frozen=True, kw_only=True):
    """Rows of a table in an index that ends with the time.

    table:  `requests`, or one with the columns request_id and time.
    where:  with the alias `i`, and `values` for its marks. clock: the column with the time.
    beyond: a condition of the request, so that two ways of one test find no request twice.
    few:    the index has no time, but these are so few rows that all of them can be looked at.
    """

    where: str
    values: tuple[Value, ...] = ()
    table: str = "requests"
    clock: str = "ended"
    beyond: str = ""
    beyond_values: tuple[Value, ...] = ()
    few: bool = False


class Test(Struct, frozen=True, kw_only=True):
    """A filter. sql: a condition of the request.

    ways: together they find all requests that fulfil it; () if it has no index.
    late:  it is found in the index by time, if no other test has an index.
    exact: the ways find nothing else.
    dear:  testing one takes longer than to find one.
    """

    sql: str
    values: tuple[Value, ...] = ()
    ways: tuple[Way, ...] = ()
    late: bool = False
    exact: bool = True
    dear: bool = False


_OWN = ", ".join(f"'{one}'" for one in sorted(OWN_RULES))
_FAILED = FAILED.replace("status", "{a}.status").replace("error", "{a}.error")
_REFUSED = (
    "(c.status >= 400 AND (c.error = 'content_blocked' OR (c.backend = '' AND"
    f" (c.error IN ({_OWN}) OR c.status = 403 OR (c.status = 429 AND c.route = '')))))"
)
_ERROR = "(c.status >= 500 OR c.status = 429 OR (c.status < 400 AND c.error <> ''))"
FAILED_SQL: Final = f"({_FAILED.format(a='c')})"
ERROR_SQL: Final = f"({FAILED_SQL} AND {_ERROR} AND NOT {_REFUSED})"
REFUSED_SQL: Final = f"({FAILED_SQL} AND {_REFUSED})"
CLIENT_SQL: Final = f"({FAILED_SQL} AND NOT {_ERROR} AND NOT {_REFUSED})"
"""As `traffic.counting.outcome_of`."""
_FAILED_WAY = Way(where=f"({_FAILED.format(a='i')})")


def tests_of(wanted: RequestFilter) -> Iterator[Test]:
    """Yield the tests of a filter but for the time, those that are rare first."""
    if wanted.id:
        yield _id(wanted.id)
    if wanted.end_user:
        yield _equal("end_user", wanted.end_user)
    if wanted.error:
        yield _equal("error", wanted.error)
    if wanted.status:
        yield _status(wanted.status)
    if wanted.key:
        yield _equal("key", wanted.key)
    if wanted.experiment:
        yield _equal("experiment", wanted.experiment)
    if wanted.variant:
        yield Test(sql="c.variant = ?", values=(wanted.variant,))
    if wanted.tag:
        yield _tag(wanted.tag)
    if wanted.backend:
        yield _backend(wanted.backend)
    if wanted.team:
        yield _equal("team", wanted.team)
    if wanted.client:
        yield _equal("client", wanted.client)
    if wanted.model:
        yield _model(wanted.model)
    if wanted.payload is not None:
        yield _payload(found=wanted.payload)
    if wanted.surface:
        yield _equal("surface", wanted.surface)
    if wanted.stream is not None:
        yield _stream(int(wanted.stream))


def _equal(column: str, value: str) -> Test:
    """The index leaves out rows without a value, so queries have to say that they do."""
    way = Way(where=f"i.{column} = ? AND i.{column} <> ''", values=(value,))
    return Test(sql=f"c.{column} = ?", values=(value,), ways=(way,))


def _stream(wanted: int) -> Test:
    way = Way(where="i.stream = ?", values=(wanted,), clock="time")
    return Test(sql="c.stream = ?", values=(wanted,), ways=(way,), late=True)


def _id(text: str) -> Test:
    sql = "((c.request_id >= ? AND c.request_id < ?) OR c.client_request_id = ?)"
    begin = request_id_of(text)
    bounds = (begin, begin + (_LAST if len(begin) >= ID_PREFIX else "\x01"))
    own = Way(where="i.request_id >= ? AND i.request_id < ?", values=bounds, few=True)
    clients = Way(
        where="i.client_request_id = ? AND i.client_request_id <> ''",
        values=(text,),
        beyond="NOT (c.request_id >= ? AND c.request_id < ?)",
        beyond_values=bounds,
        few=True,
    )
    return Test(sql=sql, values=(*bounds, text), ways=(own, clients))


def _status(wanted: str) -> Test:
    aborted = Way(where="i.status = 499 AND i.status >= 400")
    match wanted:
        case "ok":
            return Test(sql="c.status < 400 AND c.error = ''")
        case "failed":
            return Test(sql=FAILED_SQL, ways=(_FAILED_WAY,))
        case "error":
            return Test(sql=ERROR_SQL, ways=(_FAILED_WAY,), exact=False)
        case "client_error":
            return Test(sql=CLIENT_SQL, ways=(_FAILED_WAY,), exact=False)
        case "refused":
            return Test(sql=REFUSED_SQL, ways=(_FAILED_WAY,), exact=False)
        case _ if wanted.endswith("xx"):
            least = int(wanted[0]) * 100
            ways = {4: (_FAILED_WAY, aborted), 5: (_FAILED_WAY,)}.get(int(wanted[0]), ())
            bounds = (least, least + 100)
            return Test(sql="c.status >= ? AND c.status < ?", values=bounds, ways=ways, exact=False)
        case _:
            code = int(wanted)
            way = Way(where="i.status = ? AND i.status >= 400", values=(code,))
            return Test(sql="c.status = ?", values=(code,), ways=(way,) if code >= 400 else ())


def _backend(name: str) -> Test:
    """The one in the request, which answered or failed last, or one that was tried before."""
    # Written so that SQLite finds the attempts of a request by its id, and not by the backend.
    sql = (
        "(c.backend = ? OR EXISTS (SELECT 1 FROM attempts a WHERE a.request_id = c.request_id"
        " AND a.backend = ? AND a.role IN ('failed', 'hedge')))"
    )
    own = Way(where="i.backend = ? AND i.backend <> ''", values=(name,))
    before = Way(
        table="attempts",
        clock="time",
        where="i.backend = ? AND i.role <> 'served' AND i.role <> 'mirror'",
        values=(name,),
        beyond="c.backend <> ?",
        beyond_values=(name,),
    )
    return Test(sql=sql, values=(name, name), ways=(own, before), dear=True)


def _tag(name: str) -> Test:
    sql = (
        "EXISTS (SELECT 1 FROM tagged_requests t WHERE t.tag = ? AND t.time = c.time"
        " AND t.request_id = c.request_id)"
    )
    way = Way(table="tagged_requests", clock="time", where="i.tag = ?", values=(name,))
    return Test(sql=sql, values=(name,), ways=(way,))


def _model(name: str) -> Test:
    own = Way(where="i.route = ? AND i.route <> ''", values=(name,))
    named = Way(where="i.model = ? AND i.model <> i.route", values=(name,))
    return Test(sql="(c.route = ? OR c.model = ?)", values=(name, name), ways=(own, named))


def _payload(*, found: bool) -> Test:
    sql = "EXISTS (SELECT 1 FROM payloads p WHERE p.request_id = c.request_id)"
    if not found:
        return Test(sql=f"NOT {sql}")
    return Test(sql=sql, ways=(Way(table="payloads", where="1 = 1", clock="time"),))
