"""The reports of gateways in the store: one row each, replaced by the next report."""

from collections.abc import Sequence
from typing import Final

import msgspec

from strowger_gateway.gateway.console.gateways.report import GatewayReport, decoder, encoder
from strowger_gateway.gateway.storage.sql.database import Database

FORGET_S: Final = 3_600.0
"""Age of a report at which it is removed."""


def put_report(database: Database, report: GatewayReport) -> None:
    """Store a report, and remove old ones. Raises StoreUnavailable."""
    body = encoder.encode(report).decode()
    with database.writing() as session:
        session.run("DELETE FROM gateway_reports WHERE seen < ?", report.seen - FORGET_S)
        session.run(
            "INSERT INTO gateway_reports (gateway, seen, body) VALUES (?, ?, ?)"
            " ON CONFLICT (gateway) DO UPDATE SET seen = excluded.seen, body = excluded.body",
            report.name,
            report.seen,
            body,
        )


def drop_report(database: Database, name: str) -> None:
    """Remove the report of a gateway that stops. Raises StoreUnavailable."""
    with database.writing() as session:
        session.run("DELETE FROM gateway_reports WHERE gateway = ?", name)


def stored_reports(database: Database) -> Sequence[GatewayReport]:
    """Return the reports by name; those of another version that cannot be read are left out.

    Raises StoreUnavailable.
    """
    with database.reading() as session:
        rows = session.rows(tuple[str], "SELECT body FROM gateway_reports ORDER BY gateway")
    found: list[GatewayReport] = []
    for (body,) in rows:
        try:
            found.append(decoder.decode(body))
        except msgspec.DecodeError:
            continue
    return found
