"""The store in SQL, for either database."""

import json
import time
from collections.abc import Mapping, Sequence

import msgspec

from strowger_gateway.gateway.audit.event import AuditEvent, clean
from strowger_gateway.gateway.statistics.interval_history import Point
from strowger_gateway.gateway.statistics.outcomes import Outcomes, Per
from strowger_gateway.gateway.statistics.sample_ratio import ArmCount, EpochCounts
from strowger_gateway.gateway.storage.sql import request_queries as recorded
from strowger_gateway.gateway.storage.sql.audit_rows import AuditRows, append
from strowger_gateway.gateway.storage.sql.base import (
    Epoch,
    ImportResult,
    KnownRequest,
    Pause,
    RequestCounts,
    Run,
    first_comparison,
)
from strowger_gateway.gateway.storage.sql.database import Database, Driver, Session
from strowger_gateway.gateway.storage.sql.errors import ConcurrentImport, StoreRejected
from strowger_gateway.gateway.storage.sql.experiments import vote_queries as votes
from strowger_gateway.gateway.storage.sql.experiments.exclusions import LONGEST_REASON
from strowger_gateway.gateway.storage.sql.experiments.interval_points import add_point, points
from strowger_gateway.gateway.storage.sql.experiments.outcome_queries import outcomes, responses
from strowger_gateway.gateway.storage.sql.experiments.pause_epochs import (
    PAUSED,
    begin_pause,
    last_paused,
)
from strowger_gateway.gateway.storage.sql.experiments.split_counts import units_by_place
from strowger_gateway.gateway.storage.sql.experiments.votes import Vote, Votes
from strowger_gateway.gateway.storage.sql.import_rows import (
    insert_one_by_one,
    insert_rows,
    remove_vote,
)
from strowger_gateway.gateway.storage.sql.key_rows import KeyRows
from strowger_gateway.gateway.storage.sql.payload_rows import PayloadRows
from strowger_gateway.gateway.storage.sql.request_queries import RecordedRequest
from strowger_gateway.gateway.storage.sql.response_rows import ResponseRows
from strowger_gateway.gateway.storage.sql.retention import prune
from strowger_gateway.gateway.storage.sql.rows import Row
from strowger_gateway.gateway.storage.sql.schema import fenced, migration
from strowger_gateway.gateway.storage.sql.sealing_key_rows import SealingKeyRows
from strowger_gateway.gateway.storage.sql.session_rows import SessionRows
from strowger_gateway.gateway.storage.sql.spend_rows import SpendRows
from strowger_gateway.gateway.storage.sql.usage_rows import Usage, usage

WRITE_PROBE_S = 10.0
"""Interval at which an idle database is written, to find out that it cannot be."""

_shares = msgspec.json.Decoder(dict[str, float])


class SqlStore:
    """A store that opens its database on first use. stored_responses: of the Responses API.

    issued_keys: API keys that are not in config.yaml. spend: what budgets are read from.
    admin_sessions: of browsers at /admin. sealing_keys: of items of responses.
    audit: the chain of the audit log. payloads: logged bodies of requests and answers.
    database: for rows of other packages.

    Every method raises StoreUnavailable if the database cannot be reached, or if a newer version
    of the program has changed the tables.
    """

    def __init__(self, driver: Driver) -> None:
        self.database = self._database = Database(driver, migration(driver), fenced(driver))
        self.stored_responses = ResponseRows(self._database)
        self.issued_keys = KeyRows(self._database)
        self.spend = SpendRows(self._database)
        self.admin_sessions = SessionRows(self._database)
        self.sealing_keys = SealingKeyRows(self._database)
        self.audit = AuditRows(self._database)
        self.payloads = PayloadRows(self._database)
        self._write_due = 0.0

    def prepare(self) -> None:
        """Create or migrate the tables. Raises StoreUnavailable, InvalidConfig."""
        self._database.prepare()

    def epoch(
        self, experiment: str, fingerprint: str, shares: Mapping[str, float], now: float
    ) -> Epoch:
        with self._database.writing() as session:
            known = _epochs(session, experiment)
            if known and known[-1].fingerprint == fingerprint:
                return known[-1]
            if known and known[-1].paused and fingerprint.endswith(PAUSED):
                return known[-1]  # no request counts in it, so files need none of their own
            epoch = Epoch(
                experiment=experiment,
                number=len(known) + 1,
                fingerprint=fingerprint,
                shares=dict(shares),
                began=now,
            )
            session.run(
                "INSERT INTO experiment_epochs (experiment, number, fingerprint, shares, began)"
                " VALUES (?, ?, ?, ?, ?)",
                experiment,
                epoch.number,
                fingerprint,
                json.dumps(dict(shares)),
                now,
            )
            return epoch

    def epochs(self, experiment: str) -> tuple[Epoch, ...]:
        with self._database.reading() as session:
            return _epochs(session, experiment)

    def define(
        self, experiment: str, definition: str, now: float, votes_until_s: float | None = None
    ) -> None:
        with self._database.writing() as session:
            session.run(
                "INSERT INTO experiment_definitions (experiment, definition, time, votes_until)"
                " VALUES (?, ?, ?, ?) ON CONFLICT (experiment) DO UPDATE SET"
                " definition = excluded.definition, time = excluded.time,"
                " votes_until = excluded.votes_until",
                experiment,
                definition,
                now,
                votes_until_s,
            )

    def runs(self) -> Sequence[Run]:
        with self._database.reading() as session:
            rows = session.rows(
                tuple[str, str, int, float],
                "SELECT r.experiment, COALESCE(MAX(d.definition), ''),"
                " CAST(SUM(r.requests) AS BIGINT), MAX(r.last) FROM experiment_requests r"
                " LEFT JOIN experiment_definitions d ON d.experiment = r.experiment"
                " GROUP BY r.experiment ORDER BY r.experiment",
            )
        return [
            Run(experiment=name, definition=definition, requests=requests, last=last)
            for name, definition, requests, last in rows
        ]

    def pauses(self) -> Mapping[str, Pause]:
        with self._database.reading() as session:
            kind = tuple[str, str, float]
            rows = session.rows(kind, "SELECT experiment, reason, at FROM experiment_pauses")
        return {
            name: Pause(experiment=name, reason=reason, at=at) for name, reason, at in sorted(rows)
        }

    def pause(self, experiment: str, reason: str, now: float) -> bool:
        sql = "INSERT INTO experiment_pauses (experiment, reason, at) VALUES (?, ?, ?)"
        with self._database.writing() as session:
            why = clean(reason, LONGEST_REASON)
            new = session.run(f"{sql} ON CONFLICT DO NOTHING", experiment, why, now) > 0
            if new:
                begin_pause(session, experiment, now)
            return new

    def resume(self, experiment: str) -> bool:
        with self._database.writing() as session:
            sql = "DELETE FROM experiment_pauses WHERE experiment = ?"
            return session.run(sql, experiment) > 0

    def paused_epochs(self) -> Mapping[str, int]:
        with self._database.reading() as session:
            return last_paused(session)

    def claim(self, name: str, every_s: float, now: float) -> bool:
        sql = "INSERT INTO turns (name, at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE"
        free = "SET at = excluded.at WHERE turns.at <= ? OR turns.at > ?"
        with self._database.writing() as session:
            return session.run(f"{sql} {free}", name, now, now - every_s, now + every_s) > 0

    def metrics(self, experiment: str) -> Mapping[str, Votes]:
        with self._database.reading() as session:
            return votes.metrics(session, experiment)

    def votes(
        self,
        experiment: str,
        metric: str,
        limit: int,
        outside: tuple[float, float] | None = None,
    ) -> Sequence[Vote]:
        with self._database.reading() as session:
            return votes.farthest(session, experiment, metric, limit, outside)

    def remove_vote(
        self, experiment: str, metric: str, request_id: str, event: AuditEvent | None = None
    ) -> int:
        with self._database.writing() as session:
            removed = remove_vote(session, experiment, metric, request_id)
            if removed and event is not None:
                append(session, (event,))
            return removed

    def outcomes(self, experiment: str, metric: str, *, per: Per = "observation") -> Outcomes:
        with self._database.reading() as session:
            return outcomes(session, experiment, metric, per)

    def responses(self, experiment: str, metric: str) -> Outcomes:
        with self._database.reading() as session:
            return responses(session, experiment, metric)

    def counts(self, experiment: str) -> tuple[EpochCounts, ...]:
        with self._database.reading() as session:
            epochs = _epochs(session, experiment)
            units = units_by_place(session, experiment, first_comparison(epochs) or 0)
        return tuple(_counts(epoch, units) for epoch in epochs)

    def request_counts(self, experiment: str) -> Sequence[RequestCounts]:
        with self._database.reading() as session:
            rows = session.rows(
                tuple[int, str, int, int, float],
                _REQUESTS,
                experiment,
            )
        return [
            RequestCounts(
                epoch=epoch, variant=variant, requests=requests, fallbacks=fallbacks, last=last
            )
            for epoch, variant, requests, fallbacks, last in rows
        ]

    def interval_points(self, experiment: str, metric: str) -> tuple[Point, ...]:
        with self._database.reading() as session:
            return points(session, experiment, metric)

    def add_interval_point(self, experiment: str, metric: str, point: Point) -> bool:
        with self._database.writing() as session:
            return add_point(session, experiment, metric, point)

    def known_request(self, request_id: str) -> KnownRequest | None:
        with self._database.reading() as session:
            rows = session.rows(
                tuple[str, str, str, float | None],
                "SELECT r.key, r.experiment, r.variant, r.time + d.votes_until FROM requests r"
                " LEFT JOIN experiment_definitions d ON d.experiment = r.experiment"
                " AND r.unit <> '' WHERE r.request_id = ?",
                request_id,
            )
        for key, experiment, variant, votes_until in rows:
            return KnownRequest(
                request_id=request_id,
                key=key,
                experiment=experiment,
                variant=variant,
                votes_until=votes_until,
            )
        return None

    def recorded_request(self, request_id: str) -> RecordedRequest | None:
        with self._database.reading() as session:
            return recorded.by_id(session, request_id)

    def recorded_before(self, time: float, limit: int) -> Sequence[RecordedRequest]:
        with self._database.reading() as session:
            return recorded.before(session, time, limit)

    def usage(self, periods: Sequence[tuple[int, int]]) -> list[Usage]:
        with self._database.reading() as session:
            return usage(session, periods)

    def ping(self) -> None:
        """See Sink.ping."""
        with self._database.reading() as session:
            session.rows(tuple[int], "SELECT 1")
        at = time.monotonic()
        if at < self._write_due:
            return
        with self._database.writing(alone=False) as session:
            sql = "INSERT INTO turns (name, at) VALUES ('write probe', ?) ON CONFLICT (name)"
            session.run(f"{sql} DO UPDATE SET at = excluded.at", time.time())
        self._write_due = at + WRITE_PROBE_S

    def probe_writes(self) -> None:
        """Let the next `ping` write."""
        self._write_due = 0.0

    def position(self, file: str) -> int:
        with self._database.reading() as session:
            return _position(session, file)

    def import_rows(self, file: str, begin: int, end: int, rows: Sequence[Row]) -> ImportResult:
        """See Sink.import_rows. After a rejection, import row by row and count the rejected."""
        try:
            with self._database.writing() as session:
                _advance(session, file, begin, end)
                return ImportResult(rows=len(rows), unwanted=insert_rows(session, rows))
        except StoreRejected:
            with self._database.writing() as session:
                _advance(session, file, begin, end)
                unwanted, rejected = insert_one_by_one(session, rows)
                why = str(rejected[0]) if rejected else ""
                return ImportResult(
                    rows=len(rows), rejected=len(rejected), unwanted=unwanted, why=why
                )

    def forget(self, file: str) -> None:
        with self._database.writing() as session:
            session.run("DELETE FROM spool_files WHERE file = ?", file)

    def prune(
        self,
        before: float,
        waiting_before: float,
        usage_before: float = 0.0,
        payloads_before: float = 0.0,
    ) -> int:
        return prune(self._database, before, waiting_before, usage_before, payloads_before)

    def close_idle(self) -> None:
        """Close the connections that no transaction uses; the next one opens another."""
        self._database.close_idle()

    def close(self) -> None:
        self._database.close()


# What is left out are requests of a unit, which are its observations of `error` and `fallback`.
_LEFT_OUT = """CAST(COALESCE((SELECT SUM({0}) FROM experiment_left_out x JOIN experiment_units u
    ON u.experiment = x.experiment AND u.metric = '{1}' AND u.unit = x.unit
    WHERE x.experiment = r.experiment AND u.epoch = r.epoch AND u.variant = r.variant), 0)
    AS BIGINT)"""
_REQUESTS = f"""SELECT epoch, variant, requests - {_LEFT_OUT.format("u.count", "error")},
    fallbacks - {_LEFT_OUT.format("u.total", "fallback")}, last FROM experiment_requests r
    WHERE experiment = ? ORDER BY epoch, variant"""


def _epochs(session: Session, experiment: str) -> tuple[Epoch, ...]:
    rows = session.rows(
        tuple[int, str, str, float],
        "SELECT number, fingerprint, shares, began FROM experiment_epochs"
        " WHERE experiment = ? ORDER BY number",
        experiment,
    )
    return tuple(
        Epoch(
            experiment=experiment,
            number=number,
            fingerprint=fingerprint,
            shares=_shares.decode(shares),
            began=began,
        )
        for number, fingerprint, shares, began in rows
    )


def _counts(epoch: Epoch, units: Mapping[tuple[int, str], int]) -> EpochCounts:
    """Count units by arm. A variant with units but no share is included: it indicates an error."""
    strays = [name for number, name in units if number == epoch.number and name not in epoch.shares]
    return EpochCounts(
        epoch=epoch.number,
        arms=tuple(
            ArmCount(
                name=name,
                weight=epoch.shares.get(name, 0.0),
                units=units.get((epoch.number, name), 0),
            )
            for name in (*epoch.shares, *strays)
        ),
    )


def _position(session: Session, file: str) -> int:
    rows = session.rows(tuple[int], "SELECT position FROM spool_files WHERE file = ?", file)
    return rows[0][0] if rows else 0


def _advance(session: Session, file: str, begin: int, end: int) -> None:
    if _position(session, file) != begin:
        raise ConcurrentImport(f"another process has imported from {file}")
    session.run(
        "INSERT INTO spool_files (file, position, time) VALUES (?, ?, ?)"
        " ON CONFLICT (file) DO UPDATE SET position = excluded.position, time = excluded.time",
        file,
        end,
        time.time(),
    )
