"""Find rows that another row should be there for, sums that are wrong, and a broken audit log.

The tables have no foreign keys, because records come in any order. What is found here was changed
by hand, or restored in part, or is a fault of the program.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.audit.chain import ChainHead
from strowger_gateway.gateway.audit.verification import ChainCheck
from strowger_gateway.gateway.storage.copying import pages
from strowger_gateway.gateway.storage.copying.tables import tables
from strowger_gateway.gateway.storage.sql.audit_rows import AuditRows
from strowger_gateway.gateway.storage.sql.database import Database


class StoreRule(Struct, frozen=True, kw_only=True):
    """A rule of the rows. breaches: a query of the number of rows that break it."""

    table: str
    what: str
    remedy: str
    breaches: str


class Breach(Struct, frozen=True, kw_only=True):
    """A rule that rows break. count: how many; of the audit log, its first faults are one each."""

    table: str
    count: int
    what: str
    remedy: str


class StoreState(Struct, frozen=True, kw_only=True):
    """What a check has found. rows: by table, of those that have any. head: of the audit log."""

    rows: dict[str, int]
    breaches: tuple[Breach, ...]
    audit_rows: int
    head: str


def _orphans(table: str, key: str, parent: str, parent_key: str) -> str:
    return (
        f"SELECT COUNT(*) FROM {table} c WHERE NOT EXISTS"
        f" (SELECT 1 FROM {parent} p WHERE p.{parent_key} = c.{key})"
    )


_BY_HAND: Final = "restore the last backup, or delete the rows"
RULES: Final[Sequence[StoreRule]] = (
    StoreRule(
        table="issued_key_secrets",
        what="secrets of keys that are not there; they open nothing",
        remedy="restore issued_keys from a backup, or delete the secrets",
        breaches=_orphans("issued_key_secrets", "key", "issued_keys", "name"),
    ),
    StoreRule(
        table="issued_keys",
        what="keys that are not revoked and have no secret; no client can use them",
        remedy="rotate them (strowger keys rotate NAME)",
        breaches="SELECT COUNT(*) FROM issued_keys k WHERE revoked IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM issued_key_secrets s WHERE s.key = k.name)",
    ),
    StoreRule(
        table="usage_sums",
        what="sums of payers that are not there; no report shows them",
        remedy=_BY_HAND,
        breaches=_orphans("usage_sums", "payer", "usage_payers", "id"),
    ),
    StoreRule(
        table="stored_response_keys",
        what="keys whose stored responses have another size than their sum says",
        remedy="set bytes to the sum of stored_responses.bytes of the key",
        breaches="SELECT COUNT(*) FROM stored_response_keys k WHERE bytes <> (SELECT"
        " COALESCE(SUM(r.bytes), 0) FROM stored_responses r WHERE r.key = k.key)",
    ),
    StoreRule(
        table="budget_alert_deliveries",
        what="deliveries of alerts that are not there",
        remedy=_BY_HAND,
        breaches=_orphans("budget_alert_deliveries", "alert", "budget_alerts", "id"),
    ),
    *(
        StoreRule(
            table=table,
            what="rows of replays that are not there",
            remedy=_BY_HAND,
            breaches=_orphans(table, "run", "replay_runs", "name"),
        )
        for table in ("replay_pairs", "replay_calls", "replay_votes")
    ),
    *(
        StoreRule(
            table=table.name,
            what=f"rows in a table that always has {len(table.initial)}",
            remedy=_BY_HAND,
            breaches=f"SELECT ABS(COUNT(*) - {len(table.initial)}) FROM {table.name}",
        )
        for table in tables()
        if table.initial
    ),
)
_INTEGRITY: Final = "SELECT integrity_check FROM pragma_integrity_check(20)"


def check_store(database: Database, *, sqlite: bool) -> StoreState:
    """Check all rules. sqlite: also the file's own structure. Raises StoreUnavailable."""
    breaches: list[Breach] = []
    rows: dict[str, int] = {}
    for table in tables():
        with database.reading() as session:
            if count := pages.count(session, table):
                rows[table.name] = count
    for rule in RULES:
        with database.reading() as session:
            ((count,),) = session.rows(tuple[int], rule.breaches)
        if count:
            found = Breach(table=rule.table, count=count, what=rule.what, remedy=rule.remedy)
            breaches.append(found)
    if sqlite:
        with database.reading() as session:
            faults = [text for (text,) in session.rows(tuple[str], _INTEGRITY) if text != "ok"]
        breaches += [
            Breach(table="(file)", count=1, what=text, remedy="restore the last backup")
            for text in faults
        ]
    chain = ChainCheck()
    for one in AuditRows(database).chain():
        if isinstance(one, ChainHead):
            chain.finish(one)
        else:
            chain.add(one)
    breaches += [
        Breach(
            table="audit_rows",
            count=1,
            what=one.problem,
            remedy="see docs/audit.md; compare with a copy (strowger audit --verify --file)",
        )
        for one in chain.problems
    ]
    return StoreState(
        rows=rows, breaches=tuple(breaches), audit_rows=chain.rows, head=chain.last.hash
    )
