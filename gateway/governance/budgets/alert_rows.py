"""Alerts of budgets in the database, and their deliveries to webhooks.

The gateway whose insert of an alert succeeds has made it; others find it there. A delivery is
claimed before it is sent, so two gateways do not send it at the same time.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.storage.sql.database import Database, Session


class BudgetAlert(Struct, frozen=True, kw_only=True):
    """A budget of one subject has passed a share of its limit in one period.

    begin, end: of the period, Unix seconds. body: what webhooks receive, JSON; the same for each
    attempt. created: Unix seconds.
    """

    id: str
    budget: str
    subject: str
    begin: int
    end: int
    threshold: float
    body: str
    created: float


class Delivery(Struct, frozen=True, kw_only=True):
    """An alert that is due at a webhook. attempts: before this one."""

    alert: str
    webhook: str
    attempts: int
    created: float
    body: str


class AlertMark(Struct, frozen=True, kw_only=True):
    """An alert as reports show it. created: Unix seconds."""

    budget: str
    subject: str
    begin: int
    end: int
    threshold: float
    created: float


class AlertRows:
    """The alerts of one database. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, alert: BudgetAlert, webhooks: Sequence[str]) -> bool:
        """Store an alert, due at these webhooks now; false if it exists."""
        with self._database.writing() as session:
            added = session.run(
                f"INSERT INTO budget_alerts ({_ALERT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                alert.id,
                alert.budget,
                alert.subject,
                alert.begin,
                alert.end,
                alert.threshold,
                alert.body,
                alert.created,
            )
            if not added:
                return False
            for webhook in webhooks:
                session.run(
                    "INSERT INTO budget_alert_deliveries"
                    " (alert, webhook, attempts, due, state, error)"
                    " VALUES (?, ?, 0, ?, 'due', '') ON CONFLICT DO NOTHING",
                    alert.id,
                    webhook,
                    alert.created,
                )
        return True

    def current(self, at: float) -> list[AlertMark]:
        """Return the alerts of periods that have not ended. at: Unix seconds."""
        with self._database.reading() as session:
            found = session.rows(
                tuple[str, str, int, int, float, float],
                "SELECT budget, subject, period_begin, period_end, threshold, created"
                " FROM budget_alerts WHERE period_end > ?",
                int(at),
            )
        return [
            AlertMark(
                budget=row[0],
                subject=row[1],
                begin=row[2],
                end=row[3],
                threshold=row[4],
                created=row[5],
            )
            for row in found
        ]

    def waiting(self, at: float) -> tuple[int, set[str]]:
        """Return how many deliveries are not done, and the webhooks that have one due now.

        at: Unix seconds.
        """
        with self._database.reading() as session:
            found = session.rows(
                tuple[str, float],
                "SELECT webhook, due FROM budget_alert_deliveries WHERE state = 'due'",
            )
        return len(found), {name for name, due in found if due <= at}

    def claim(self, webhook: str, at: float, until: float) -> Delivery | None:
        """Take the oldest delivery that is due; no other gateway takes it before `until`."""
        with self._database.writing() as session:
            found = session.rows(
                tuple[str, int, float, str],
                "SELECT d.alert, d.attempts, a.created, a.body FROM budget_alert_deliveries d"
                " JOIN budget_alerts a ON a.id = d.alert"
                " WHERE d.webhook = ? AND d.state = 'due' AND d.due <= ?"
                " ORDER BY d.due, a.created LIMIT 1",
                webhook,
                at,
            )
            if not found:
                return None
            alert, attempts, created, body = found[0]
            session.run(
                "UPDATE budget_alert_deliveries SET due = ?, attempts = ?"
                " WHERE alert = ? AND webhook = ?",
                until,
                attempts + 1,
                alert,
                webhook,
            )
        return Delivery(alert=alert, webhook=webhook, attempts=attempts, created=created, body=body)

    def finish(self, delivery: Delivery, *, delivered: bool, error: str = "") -> None:
        """The webhook has accepted it, or it is given up."""
        state = "delivered" if delivered else "given up"
        with self._database.writing() as session:
            _set(session, delivery, "state = ?, error = ?", state, error)

    def retry(self, delivery: Delivery, due: float, error: str) -> None:
        """The attempt has failed. due: of the next one, Unix seconds."""
        with self._database.writing() as session:
            _set(session, delivery, "due = ?, error = ?", due, error)


def _set(session: Session, delivery: Delivery, columns: str, *values: str | float) -> None:
    session.run(
        f"UPDATE budget_alert_deliveries SET {columns} WHERE alert = ? AND webhook = ?"
        " AND state = 'due'",
        *values,
        delivery.alert,
        delivery.webhook,
    )


_ALERT: Final = "id, budget, subject, period_begin, period_end, threshold, body, created"
