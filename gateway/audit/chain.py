"""Rows of the audit log, each with the hash of the one before it.

The hash of a row is the SHA-256 of its JSON line without the last member, `hash`, in hexadecimal.
The line contains `prev`, the hash of the row before, so no row can be changed, removed or inserted
without changing the hashes of all later rows. docs/audit.md shows how to check a file without this
program.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.audit.event import LONGEST_REASON, AuditEvent, Change, clean

NO_HASH: Final = "0" * 64
"""`prev` of the first row, and the head of an empty chain."""

_MOST_FACTS: Final = 50
_MOST_DETAIL: Final = 64 * 1024
"""Bytes of all changes of one row."""

_encode = msgspec.json.encode


class AuditRow(Struct, frozen=True, kw_only=True):
    """One row of the chain; its fields are the columns of the table and the members of a line.

    seq:    from 1, without gaps. time: RFC 3339 in UTC, with microseconds.
    detail: JSON: an object with the event's `facts` and `changes`, if there are any.
    prev, hash: see above. The other fields are those of `AuditEvent`.
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
    detail: str
    prev: str
    hash: str = ""


class ChainHead(Struct, frozen=True, kw_only=True):
    """The last row's place and hash; 0 and NO_HASH if there is none."""

    seq: int
    hash: str


class Detail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `AuditRow.detail` holds, as JSON."""

    facts: dict[str, str] = {}
    changes: tuple[Change, ...] = ()


_lines = msgspec.json.Decoder(dict[str, msgspec.Raw])
_detail_decoder = msgspec.json.Decoder(Detail)


def timestamp(at: float) -> str:
    """Return Unix seconds as RFC 3339; such texts sort by time."""
    instant = datetime.fromtimestamp(at, UTC)
    return instant.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def chained(event: AuditEvent, head: ChainHead) -> AuditRow:
    """Return the row of an event that follows a chain's head."""
    row = AuditRow(
        seq=head.seq + 1,
        time=timestamp(event.time),
        id=clean(event.id),
        host=clean(event.host),
        action=event.action,
        outcome=event.outcome,
        actor_kind=event.actor_kind,
        actor=clean(event.actor),
        session=clean(event.session),
        address=clean(event.address),
        target=clean(event.target),
        reason=clean(event.reason, LONGEST_REASON),
        count=event.count,
        detail=_detail(event),
        prev=head.hash,
    )
    return msgspec.structs.replace(row, hash=hash_of(row))


def hash_of(row: AuditRow) -> str:
    """Return the hash that the row must have, whatever it has."""
    # Late: the importing process loads OpenSSL (3.5 MB) with its first row, and others never.
    from hashlib import sha256

    return sha256(_encode(_members(row))).hexdigest()


def line_of(row: AuditRow) -> bytes:
    """Return the row's line, without a line break."""
    return _encode({**_members(row), "hash": row.hash})


def row_of(line: bytes) -> AuditRow:
    """Parse a line; further members are ignored. Raises msgspec.DecodeError."""
    members = _lines.decode(line)
    plain: dict[str, object] = {name: msgspec.json.decode(one) for name, one in members.items()}
    return msgspec.convert(
        {**plain, "detail": bytes(members.get("detail", b"")).decode()}, AuditRow
    )


def detail_of(row: AuditRow) -> Detail:
    """Return what `detail` holds; nothing if it is not such an object, because it was changed."""
    try:
        return _detail_decoder.decode(row.detail)
    except msgspec.DecodeError:
        return Detail()


def _members(row: AuditRow) -> dict[str, object]:
    """Return what is hashed, in the order of the line."""
    members = msgspec.structs.asdict(row)
    del members["hash"]
    return {**members, "detail": msgspec.Raw(row.detail)}


def _detail(event: AuditEvent) -> str:
    facts = {clean(name): clean(text) for name, text in list(event.facts.items())[:_MOST_FACTS]}
    changes: list[Change] = []
    room = _MOST_DETAIL
    for one in event.changes:
        change = Change(
            field=clean(one.field),
            old=None if one.old is None else clean(one.old),
            new=None if one.new is None else clean(one.new),
        )
        room -= len(_encode(change))
        if room < 0:
            facts["changes_left_out"] = str(len(event.changes) - len(changes))
            break
        changes.append(change)
    return _encode(Detail(facts=facts, changes=tuple(changes))).decode()
