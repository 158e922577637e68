"""Delete old rows, a few thousand at a time; sums of experiments stay, those of usage longer."""

from strowger_gateway.gateway.storage.sql.database import Database
from strowger_gateway.gateway.storage.sql.experiments.replay_texts import drop_old_replay_texts
from strowger_gateway.gateway.storage.sql.payload_rows import drop_old_payloads
from strowger_gateway.gateway.storage.sql.spend_rows import CHANGES_S, DETAIL_S, fold_old_spend
from strowger_gateway.gateway.storage.sql.traffic.rows import (
    FOLDED,
    KEPT_S,
    drop_old_traffic,
    fold_traffic,
)
from strowger_gateway.gateway.storage.sql.usage_rows import drop_old_usage

_BATCH_ROWS = 5_000
_OLD = """DELETE FROM {table} WHERE {id} IN
    (SELECT {id} FROM {table} WHERE time < ? AND {which} LIMIT {limit})"""
_TABLES = (
    ("requests", "request_id", "1 = 1"),
    ("attempts", "request_id", "1 = 1"),
    ("tagged_requests", "request_id", "1 = 1"),
    ("feedback", "request_id", "joined = 1 AND (experiment = '' OR unit = '')"),
    ("spool_files", "file", "1 = 1"),
    ("spend_writers", "writer", "1 = 1"),
)
_WAITING_S = 86_400.0
"""How long ago `waiting_before` is."""
_ALERTS_S = 90 * 86_400.0
"""Alerts of budgets are kept so long after their period has ended."""
_OLD_ALERTS = (
    """DELETE FROM budget_alert_deliveries
    WHERE alert IN (SELECT id FROM budget_alerts WHERE period_end < ?)""",
    "DELETE FROM budget_alerts WHERE period_end < ?",
)
_UNMATCHED = "DELETE FROM feedback WHERE joined = 0 AND time < ?"


def prune(
    database: Database,
    before: float,
    waiting_before: float,
    usage_before: float = 0.0,
    payloads_before: float = 0.0,
) -> int:
    """Delete old rows; each step is a transaction. Limits in Unix seconds.

    before:         of requests, their attempts, and feedback outside of experiments. Votes on an
                    experiment stay: a later vote may replace one of them. Sums of traffic are
                    kept as long, a month at most.
    waiting_before: of feedback whose request has not come. Returns the number of those.
    usage_before:   of the sums of usage. payloads_before: of logged payloads, and
                    of the texts of replays.
    """
    drop_old_payloads(database, payloads_before)
    drop_old_replay_texts(database, payloads_before)
    for table, name, which in _TABLES:
        sql = _OLD.format(table=table, id=name, which=which, limit=_BATCH_ROWS)
        deleted = _BATCH_ROWS
        while deleted >= _BATCH_ROWS:
            with database.writing() as session:
                deleted = session.run(sql, before)
    now = waiting_before + _WAITING_S
    folded = FOLDED
    while folded >= FOLDED:
        with database.writing() as session:
            folded = fold_traffic(session, now)
    with database.writing() as session:
        drop_old_usage(session, usage_before)
        drop_old_traffic(session, max(before, now - KEPT_S))
        fold_old_spend(session, min(before, now - DETAIL_S))
        session.run("DELETE FROM spend_changes WHERE time < ?", now - CHANGES_S)
        for sql in _OLD_ALERTS:
            session.run(sql, int(now - _ALERTS_S))
        return session.run(_UNMATCHED, waiting_before)
