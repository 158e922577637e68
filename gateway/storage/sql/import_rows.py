"""Insert rows into the tables, each once, and update the sums of the experiments."""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter

import msgspec

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.statistics.metrics import MEASURED, VOTE_RATE
from strowger_gateway.gateway.storage.sql.audit_rows import append
from strowger_gateway.gateway.storage.sql.database import Insert, Session, Value, marks, pieces
from strowger_gateway.gateway.storage.sql.errors import StoreRejected
from strowger_gateway.gateway.storage.sql.experiments.exclusions import note_keys
from strowger_gateway.gateway.storage.sql.experiments.late_votes import drop_late, in_time
from strowger_gateway.gateway.storage.sql.request_observations import is_error, observations
from strowger_gateway.gateway.storage.sql.rows import (
    ATTEMPT_COLUMNS,
    REQUEST_COLUMNS,
    AttemptRow,
    FeedbackRow,
    RequestRow,
    Row,
    TableColumn,
)
from strowger_gateway.gateway.storage.sql.spend_rows import add_spend, note_imported, spend_of
from strowger_gateway.gateway.storage.sql.traffic.rows import add_traffic, fold_traffic, traffic_of
from strowger_gateway.gateway.storage.sql.usage_rows import add_usage, new_copies, usage_of

_Place = tuple[str, str, int, str]
"""Experiment, unit, epoch, variant."""
_Voted = tuple[str, str, str, int, str]
"""Experiment, metric, unit, epoch, variant."""


def insert_rows(session: Session, rows: Sequence[Row]) -> int:
    """Insert all rows; return the number of feedback rows that are not stored.

    Those are on requests of other keys, or too late (`votes_until`).

    Requests and attempts that exist are skipped; a vote replaces the vote of the same request,
    metric and key. The last one to arrive counts, whatever its time: clocks of gateways differ, and
    one that is an hour ahead would win for an hour. Raises StoreRejected.
    """
    requests, attempts = _new(session, _requests(rows)), _attempts(rows)
    used = usage_of(requests, attempts, new_copies(session, attempts))
    unwanted = _insert(session, rows, requests, _next_batch(session))
    add_spend(session, spend_of(requests, attempts), time.time())
    add_usage(session, used)
    add_traffic(session, traffic_of(requests))
    fold_traffic(session, time.time())
    note_imported(session, _requests(rows), time.time())
    return unwanted


def _insert(
    session: Session, rows: Sequence[Row], requests: Sequence[RequestRow], batch: int
) -> int:
    """Insert all rows; return the number of feedback rows that are not stored.

    requests: those among the rows that are new. batch: the number of this transaction.
    """
    attempts = _attempts(rows)
    feedback = [row for row in rows if isinstance(row, FeedbackRow)]
    append(session, [row for row in rows if isinstance(row, AuditEvent)])
    session.insert(_REQUEST, [(*_request(row), row.time, batch) for row in requests])
    session.insert(
        _TAG, [(_text(tag), row.time, row.request_id) for row in requests for tag in _tags(row)]
    )
    session.insert(_ATTEMPT, [(*_attempt(row), batch) for row in attempts])
    _experiments(session, [row for row in requests if row.experiment])
    voted = in_time(session, [row for row in feedback if row.metric not in MEASURED])
    session.many(_FEEDBACK, [_vote(row) for row in voted])
    unwanted = _join(session, _with_waiting_feedback(session, [row.request_id for row in requests]))
    unwanted += _join(session, [row.request_id for row in voted])
    return len(feedback) - len(voted) + unwanted


def insert_one_by_one(session: Session, rows: Sequence[Row]) -> tuple[int, Sequence[StoreRejected]]:
    """As `insert_rows`, row by row: a rejected row affects no other."""
    unwanted, rejected, stored = 0, list[StoreRejected](), list[Row]()
    batch = _next_batch(session)
    new, copies = _new(session, _requests(rows)), new_copies(session, _attempts(rows))
    for row in rows:
        try:
            with session.savepoint():
                own = _new(session, [row]) if isinstance(row, RequestRow) else []
                unwanted += _insert(session, (row,), own, batch)
                stored.append(row)
        except StoreRejected as exc:
            rejected.append(exc)
    kept = {id(row) for row in stored}
    paid = [row for row in new if id(row) in kept]
    add_spend(session, spend_of(paid, _attempts(stored)), time.time())
    copied = [row for row in copies if id(row) in kept]
    add_usage(session, usage_of(paid, _attempts(stored), copied))
    add_traffic(session, traffic_of(paid))
    note_imported(session, _requests(rows), time.time())
    return unwanted, rejected


def _next_batch(session: Session) -> int:
    """Number this transaction. Imports take turns, so a number is seen after all smaller ones."""
    session.run("UPDATE import_batch SET number = number + 1")
    return session.rows(tuple[int], "SELECT number FROM import_batch")[0][0]


def _requests(rows: Sequence[Row]) -> list[RequestRow]:
    return [row for row in rows if isinstance(row, RequestRow)]


def _attempts(rows: Sequence[Row]) -> list[AttemptRow]:
    """Return the attempts, each once: the first that comes is stored."""
    found: dict[tuple[str, int], AttemptRow] = {}
    for row in rows:
        if isinstance(row, AttemptRow):
            found.setdefault((row.request_id, row.number), row)
    return list(found.values())


def _new(session: Session, rows: Sequence[RequestRow]) -> list[RequestRow]:
    """Return the rows that the store does not have, each once."""
    by_id = {row.request_id: row for row in reversed(rows)}
    for ids in pieces(list(by_id)):
        sql = f"SELECT request_id FROM requests WHERE request_id IN ({marks(ids)})"
        for (known,) in session.rows(tuple[str], sql, *ids):
            del by_id[known]
    return list(reversed(by_id.values()))


def _experiments(session: Session, rows: Sequence[RequestRow]) -> None:
    """Add the requests to the sums of their experiments.

    Requests of one unit are added up here first: a busy unit has many in a batch of a thousand.
    Rows are sorted so that neighbours in a table are written one after the other.
    """
    counts: defaultdict[tuple[str, int, str], list[float]] = defaultdict(lambda: [0, 0, 0.0, 0])
    firsts: dict[tuple[str, str], tuple[int, str]] = {}
    totals: dict[str, dict[_Place, list[float]]] = {metric: {} for metric in sorted(MEASURED)}
    for row in rows:
        count = counts[row.experiment, row.epoch, row.variant]
        count[0] += 1
        count[1] += row.fallback
        count[2] = max(count[2], row.time)
        count[3] += is_error(row)
        if not row.unit:
            continue
        unit, cell = (row.experiment, row.unit), (row.epoch, row.variant)
        known = firsts.get(unit)
        if known is None or cell < known:
            firsts[unit] = cell
        place = unit + cell
        for metric, value in observations(row):
            total = totals[metric].get(place)
            if total is None:
                totals[metric][place] = [1, value, value, value]
            else:
                total[0] += 1
                total[1] += value
                total[2] = min(total[2], value)
                total[3] = max(total[3], value)
    session.insert(_COUNT, [(*place, *count) for place, count in sorted(counts.items())])
    session.insert(_FIRST, [(*unit, *cell) for unit, cell in sorted(firsts.items())])
    note_keys(session, rows)
    places = sorted({place for of_metric in totals.values() for place in of_metric})
    session.insert(
        _TOTAL,
        [
            (place[0], metric, *place[1:], *of_metric[place])
            for metric, of_metric in totals.items()
            for place in places
            if place in of_metric
        ],
    )


def _with_waiting_feedback(session: Session, request_ids: Sequence[str]) -> list[str]:
    """Return the new requests whose feedback arrived before them; rarely any."""
    awaited: list[str] = []
    for ids in pieces(request_ids):
        sql = _WAITING.format(marks=marks(ids))
        awaited += [known for (known,) in session.rows(tuple[str], sql, *ids)]
    return awaited


def _join(session: Session, request_ids: Sequence[str]) -> int:
    """Join feedback to the experiments of its requests; return the rows that are deleted.

    A unit's votes are summed again from scratch: adding and subtracting floats leaves residues.
    """
    unwanted = 0
    for ids in pieces(sorted(set(request_ids))):
        places = marks(ids)
        unwanted += drop_late(session, ids)
        session.run(_PLACE.format(marks=places), *ids)
        unwanted += session.run(_FOREIGN.format(marks=places), *ids)
        _add_up(session, session.rows(_Voted, _TOUCHED.format(marks=places), *ids))
    return unwanted


def remove_vote(session: Session, experiment: str, metric: str, request_id: str) -> int:
    """See `Store.remove_vote`. The unit's remaining votes are summed again."""
    places = session.rows(_Voted, f"{_TOUCHED_BY} AND {_VOTE}", experiment, metric, request_id)
    removed = session.run(f"DELETE FROM feedback WHERE {_VOTE}", experiment, metric, request_id)
    _add_up(session, places)
    return removed


def _add_up(session: Session, places: Sequence[_Voted]) -> None:
    session.many(_FORGET_VOTES, places)
    session.many(_ADD_VOTES, places)
    units = sorted({(experiment, *place) for experiment, _, *place in places})
    session.many(_COUNT_VOTED, [(*unit, unit[0], VOTE_RATE, *unit[1:]) for unit in units])
    session.many(_BOUND_VOTED, [(unit[0], VOTE_RATE, *unit[1:]) for unit in units])


def _insert_of(
    table: str, columns: Sequence[TableColumn], *more: str, otherwise: str = ""
) -> Insert:
    """Return the insert of rows with more columns, and the number of their transaction."""
    names = tuple(column.name for column in columns)
    return Insert(table=table, columns=(*names, *more, "batch"), otherwise=otherwise)


def _values_of(columns: Sequence[TableColumn]) -> Callable[[RequestRow | AttemptRow], list[Value]]:
    """Return a function that takes the values of columns from a row."""
    read = attrgetter(*[column.name for column in columns])
    texts = attrgetter(*[column.name for column in columns if column.kind == "text"])
    flags = [place for place, column in enumerate(columns) if column.kind == "bool"]
    objects = [place for place, column in enumerate(columns) if column.kind == "json"]

    def values(row: RequestRow | AttemptRow) -> list[Value]:
        found: list[Value] = list(read(row))
        for place in flags:
            found[place] = int(found[place] is True)
        for place in objects:
            if found[place] is not None:
                found[place] = msgspec.json.encode(found[place]).decode()
        if "\0" in "".join(texts(row)):
            return [_text(value) if isinstance(value, str) else value for value in found]
        return found

    return values


def _tags(row: RequestRow) -> Collection[str]:
    """Return the tags of the key and those of the request, each once."""
    return {*row.tags, *row.request_tags} if row.tags or row.request_tags else ()


def _text(text: str) -> str:
    """Replace NUL, which JSON from clients may contain and PostgreSQL texts may not."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _vote(row: FeedbackRow) -> Sequence[Value]:
    texts = (_text(row.request_id), _text(row.metric), row.key)
    value = (row.time, row.value, row.given, _text(row.comment), int(row.boolean))
    return (*texts, *value, row.time)


_request, _attempt = _values_of(REQUEST_COLUMNS), _values_of(ATTEMPT_COLUMNS)
_REQUEST = _insert_of("requests", REQUEST_COLUMNS, "ended")
_TAG = Insert(
    table="tagged_requests",
    columns=("tag", "time", "request_id"),
    otherwise="ON CONFLICT DO NOTHING",
)
_ATTEMPT = _insert_of("attempts", ATTEMPT_COLUMNS, otherwise="ON CONFLICT DO NOTHING")
_COUNT = Insert(
    table="experiment_requests",
    columns=("experiment", "epoch", "variant", "requests", "fallbacks", "last", "errors"),
    otherwise="""ON CONFLICT (experiment, epoch, variant) DO UPDATE SET
    requests = experiment_requests.requests + excluded.requests,
    fallbacks = experiment_requests.fallbacks + excluded.fallbacks,
    errors = experiment_requests.errors + excluded.errors,
    last = CASE WHEN excluded.last > experiment_requests.last
    THEN excluded.last ELSE experiment_requests.last END""",
)
_FIRST = Insert(
    table="experiment_first",
    columns=("experiment", "unit", "epoch", "variant"),
    otherwise="""ON CONFLICT (experiment, unit) DO UPDATE SET
    epoch = excluded.epoch, variant = excluded.variant
    WHERE excluded.epoch < experiment_first.epoch""",
)
_TOTAL = Insert(
    table="experiment_units",
    columns=("experiment", "metric", "unit", "epoch", "variant", "count", "total", "least", "most"),
    otherwise="""ON CONFLICT (experiment, metric, unit, epoch, variant) DO UPDATE SET
    count = experiment_units.count + excluded.count,
    total = experiment_units.total + excluded.total,
    least = CASE WHEN excluded.least < experiment_units.least
    THEN excluded.least ELSE experiment_units.least END,
    most = CASE WHEN excluded.most > experiment_units.most
    THEN excluded.most ELSE experiment_units.most END""",
)
_FEEDBACK = """INSERT INTO feedback
    (request_id, metric, key, time, value, given, comment, boolean, first_time)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (request_id, metric, key) DO UPDATE SET time = excluded.time,
    changed_time = CASE WHEN excluded.value <> feedback.value
    THEN excluded.time ELSE feedback.changed_time END,
    value = excluded.value, given = excluded.given, comment = excluded.comment,
    boolean = excluded.boolean"""
_WAITING = "SELECT request_id FROM feedback WHERE joined = 0 AND request_id IN ({marks})"
_PLACE = """UPDATE feedback SET joined = 1,
    experiment = (SELECT r.experiment FROM requests r WHERE r.request_id = feedback.request_id),
    epoch = (SELECT r.epoch FROM requests r WHERE r.request_id = feedback.request_id),
    variant = (SELECT r.variant FROM requests r WHERE r.request_id = feedback.request_id),
    unit = (SELECT r.unit FROM requests r WHERE r.request_id = feedback.request_id)
    WHERE joined = 0 AND request_id IN ({marks}) AND EXISTS (SELECT 1 FROM requests r
    WHERE r.request_id = feedback.request_id AND r.key = feedback.key)"""
_FOREIGN = """DELETE FROM feedback WHERE joined = 0 AND request_id IN ({marks})
    AND EXISTS (SELECT 1 FROM requests r WHERE r.request_id = feedback.request_id)"""
_TOUCHED_BY = """SELECT DISTINCT experiment, metric, unit, epoch, variant FROM feedback
    WHERE joined = 1 AND experiment <> '' AND unit <> ''"""
_VOTE = "experiment = ? AND metric = ? AND request_id = ? AND value IS NOT NULL"
_TOUCHED = f"""{_TOUCHED_BY} AND request_id IN ({{marks}})
    ORDER BY experiment, metric, unit, epoch, variant"""
_SAME = "experiment = ? AND metric = ? AND unit = ? AND epoch = ? AND variant = ?"
_FORGET_VOTES = f"DELETE FROM experiment_units WHERE {_SAME}"
_ADD_VOTES = f"""INSERT INTO experiment_units
    (experiment, metric, unit, epoch, variant, count, total, least, most)
    SELECT experiment, metric, unit, epoch, variant, COUNT(value), SUM(value), MIN(value),
    MAX(value) FROM feedback
    WHERE joined = 1 AND value IS NOT NULL AND {_SAME}
    GROUP BY experiment, metric, unit, epoch, variant"""
_COUNT_VOTED = f"""UPDATE experiment_units SET total = (SELECT COUNT(DISTINCT request_id)
    FROM feedback WHERE joined = 1 AND value IS NOT NULL
    AND experiment = ? AND unit = ? AND epoch = ? AND variant = ?) WHERE {_SAME}"""
_BOUND_VOTED = f"""UPDATE experiment_units SET least = CASE WHEN total < count THEN 0 ELSE 1 END,
    most = CASE WHEN total > 0 THEN 1 ELSE 0 END WHERE {_SAME}"""
