"""`GET /admin/audit`: the rows of the audit log, page by page."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Final

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import QueryParameter
from msgspec import Struct

from strowger_gateway.gateway.assembly.gateway import Gateway
from strowger_gateway.gateway.audit.chain import AuditRow, ChainHead, detail_of, timestamp
from strowger_gateway.gateway.audit.event import LONGEST
from strowger_gateway.gateway.console.admin.access import SCHEME
from strowger_gateway.gateway.observability.recording.process_side import AuditSide
from strowger_gateway.gateway.storage.sql.audit_rows import AuditQuery, AuditRows
from strowger_gateway.schemas.errors import InvalidRequest, Unavailable

MOST: Final = 1_000
LAST: Final = 2**63 - 1
"""The largest `seq` that a store can have."""


class SettingChange(Struct, frozen=True, kw_only=True):
    """A setting before and after, as text; null: it was not there. A secret is `***`."""

    field: str
    old: str | None
    new: str | None


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One row; docs/audit.md describes the fields.

    time: RFC 3339. facts, changes: of its `detail`. prev, hash: of the chain.
    """

    seq: int
    time: str
    id: str
    host: str
    action: str
    outcome: str
    actor_kind: str
    actor: str
    session: str
    address: str
    target: str
    reason: str
    count: int
    facts: Mapping[str, str]
    changes: tuple[SettingChange, ...]
    prev: str
    hash: str


class AuditPage(Struct, frozen=True, kw_only=True):
    """The newest rows first. before: the parameter for the next page; null: this is the last.

    head: the last row of the whole chain.
    """

    rows: list[AuditEntry]
    before: int | None
    head: ChainHead


def audit_route(current: Callable[[], Gateway]) -> HTTPRouteHandler:
    @get(
        "/audit",
        role="viewer",
        summary="The audit log: who changed what",
        security=[{SCHEME: []}],
    )
    async def audit(
        limit: Annotated[
            int, QueryParameter(ge=1, le=MOST, description="number of rows, newest first")
        ] = 100,
        before: Annotated[
            int | None, QueryParameter(ge=1, le=LAST, description="rows with a lower `seq` only")
        ] = None,
        since: Annotated[
            str, QueryParameter(description="RFC 3339 time with a time zone; rows from then on")
        ] = "",
        actor: Annotated[
            str, QueryParameter(max_length=LONGEST, description="name or kind of an actor")
        ] = "",
        action: Annotated[
            str,
            QueryParameter(
                max_length=LONGEST, description="`key.revoke`, or a group such as `key`"
            ),
        ] = "",
        target: Annotated[
            str,
            QueryParameter(max_length=LONGEST, description="what was changed, such as a key"),
        ] = "",
    ) -> AuditPage:
        query = audit_query(
            since=since, actor=actor, action=action, target=target, before=before, limit=limit
        )
        return await audit_page(current(), query)

    return audit


def audit_query(
    *, since: str, actor: str, action: str, target: str, before: int | None, limit: int
) -> AuditQuery:
    """since: RFC 3339, "" for all. Raises InvalidRequest."""
    return AuditQuery(
        since=_since(since),
        actor=actor,
        action=action,
        target=target,
        before=before,
        limit=limit,
    )


async def audit_page(gateway: Gateway, query: AuditQuery) -> AuditPage:
    """Read a page of the log. Raises Unavailable, StoreUnavailable."""
    rows = gateway.side(AuditSide).rows
    if rows is None or gateway.store is None:
        raise Unavailable("the audit log requires a store, and this gateway has none")
    return await gateway.store.call(lambda _: _page(rows, query))


def _page(rows: AuditRows, query: AuditQuery) -> AuditPage:
    """Blocks. Raises StoreUnavailable."""
    found = rows.page(query)
    last = len(found) < query.limit or found[-1].seq == 1
    return AuditPage(
        rows=list(map(_entry, found)), before=None if last else found[-1].seq, head=rows.head()
    )


def _entry(row: AuditRow) -> AuditEntry:
    detail = detail_of(row)
    return AuditEntry(
        seq=row.seq,
        time=row.time,
        id=row.id,
        host=row.host,
        action=row.action,
        outcome=row.outcome,
        actor_kind=row.actor_kind,
        actor=row.actor,
        session=row.session,
        address=row.address,
        target=row.target,
        reason=row.reason,
        count=row.count,
        facts=detail.facts,
        changes=tuple(
            SettingChange(field=one.field, old=one.old, new=one.new) for one in detail.changes
        ),
        prev=row.prev,
        hash=row.hash,
    )


def _since(text: str) -> str:
    """Return a time as it is in the rows. Raises InvalidRequest."""
    if not text:
        return ""
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is not None:
            instant = instant.astimezone(UTC)
    except (ValueError, OverflowError):
        instant = None
    if instant is None or instant.tzinfo is None:
        raise InvalidRequest(
            "since: expected a time such as 2026-01-31T00:00:00Z, with a time zone", param="since"
        )
    return timestamp(instant.timestamp())
