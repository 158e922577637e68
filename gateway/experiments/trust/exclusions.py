"""Exclude a unit or an API key from an experiment: every report leaves out what it has sent."""

from msgspec import Struct

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.storage.sql.audit_rows import append
from strowger_gateway.gateway.storage.sql.base import Store
from strowger_gateway.gateway.storage.sql.experiments.exclusions import (
    ExcludedCounts,
    ExcludedName,
    Kind,
    counted,
    exclude,
    excluded_names,
    has_sent,
    include,
)


class ExclusionReport(Struct, frozen=True, kw_only=True):
    """An exclusion, and what it leaves out: units, and their requests from any key.

    name:         a unit's hash, or the name of a key; "" for requests without a key.
    by:           who excluded it. at: Unix seconds.
    shared_units: units of an excluded key that other keys sent for, too.
    """

    kind: Kind
    name: str
    reason: str
    by: str
    at: float
    units: int
    requests: int
    shared_units: int = 0

    @property
    def sentence(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        if self.kind == "unit":
            return f"unit {self.name} is excluded{why}: {self.requests:,} requests"
        shared = (
            f"; other keys sent for {self.shared_units:,} of these units, too"
            if self.shared_units
            else ""
        )
        subject = f"key {self.name}" if self.name else "no key"
        return (
            f"{subject} is excluded{why}: {self.units:,} units with {self.requests:,} "
            f"requests{shared}"
        )


def exclusion_reports(store: Store, experiment: str) -> tuple[ExclusionReport, ...]:
    """Return the exclusions of an experiment, oldest first. Blocks. Raises StoreUnavailable."""
    with store.database.reading() as session:
        return tuple(
            _report(one, counted(session, experiment, one.kind, one.name))
            for one in excluded_names(session, experiment)
        )


def add_exclusion(
    store: Store, experiment: str, one: ExcludedName, event: AuditEvent | None = None
) -> ExclusionReport | None:
    """Exclude a unit or key; `None` if it has sent nothing. Blocks. Raises StoreUnavailable.

    event: recorded in the audit log in the same transaction.
    """
    with store.database.writing() as session:
        if not has_sent(session, experiment, one.kind, one.name):
            return None
        exclude(session, experiment, one)
        if event is not None:
            append(session, (event,))
        return _report(one, counted(session, experiment, one.kind, one.name))


def end_exclusion(
    store: Store, experiment: str, kind: Kind, name: str, event: AuditEvent | None = None
) -> bool:
    """End an exclusion; return whether there was one. Blocks. Raises StoreUnavailable."""
    with store.database.writing() as session:
        was = include(session, experiment, kind, name)
        if was and event is not None:
            append(session, (event,))
        return was


def _report(one: ExcludedName, counts: ExcludedCounts) -> ExclusionReport:
    return ExclusionReport(
        kind=one.kind,
        name=one.name,
        reason=one.reason,
        by=one.by,
        at=one.at,
        units=counts.units,
        requests=counts.requests,
        shared_units=counts.shared_units,
    )
