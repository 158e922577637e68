"""Issued API keys in the database: their rows, the version of the list, and who has read it.

Every change increments the version of the list in its own transaction, so a reader sees with one
small query whether anything has changed. `last_used` is not a change.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.audit.event import AuditEvent
from strowger_gateway.gateway.config.schema.budgets import OwnBudget
from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.gateway.config.schema.units import (
    LONGEST_WAIT_S,
    MOST_COUNTED_USD,
    MOST_OF_A_BUDGET,
    MOST_OF_A_LIMIT,
    MOST_URGENT,
)
from strowger_gateway.gateway.storage.sql.audit_rows import append
from strowger_gateway.gateway.storage.sql.database import Database, Session
from strowger_gateway.gateway.storage.sql.spend_rows import SLOT_S, slot_of

_T = TypeVar("_T")
RECENT_S: Final = 31 * 86_400.0
"""How far back the last use of a key of the file is looked for."""

_log = logging.getLogger("strowger.keys")
_KEY: Final = (
    'name, team, "user", models, max_priority, tags, expires, not_before, allowed_networks,'
    " disabled, created_by, created, revoked, version, limits, budgets"
)
_SECRET: Final = "key, digest, last4, created, valid_until"
_READER: Final = "id, host, pid, processes, version, seen"

_MOST_OF_LIMITS: Final = {
    **dict.fromkeys(("requests", "tokens", "concurrent"), MOST_OF_A_LIMIT),
    "wait_s": LONGEST_WAIT_S,
}
_MOST_OF_BUDGETS: Final = {"tokens": MOST_OF_A_BUDGET, "count_usd": MOST_COUNTED_USD}

_texts = msgspec.json.Decoder(tuple[str, ...])
_encode = msgspec.json.encode


class KeySecret(Struct, frozen=True, kw_only=True, gc=False):
    """One secret of a key; it is stored only as its digest.

    digest: SHA-256 in hexadecimal. last4: its last four characters.
    until:  Unix seconds; it was replaced and is valid until then. `None`: until the next rotation.
    """

    digest: str
    last4: str
    created: float
    until: float | None = None


class IssuedKey(Struct, frozen=True, kw_only=True):
    """An API key that is in the store, not in config.yaml. Times are Unix seconds.

    user:    the person or program that the key was issued to; "" if none was named.
    models, max_priority: as of auth.keys[]. tags: free texts for reports.
    allowed_networks: from which it may be used; () is everywhere.
    expires, not_before: `None` means unlimited. revoked: `None` if the key is not revoked.
    limits, budgets: of this key alone, besides those of the configuration.
    secrets: the current one first, and the one that it replaced while that is valid.
    version: of the list when the key last changed.
    """

    name: str
    team: str = ""
    user: str = ""
    models: tuple[str, ...] = ("*",)
    max_priority: int = MOST_URGENT
    tags: tuple[str, ...] = ()
    expires: float | None = None
    not_before: float | None = None
    allowed_networks: tuple[str, ...] = ()
    disabled: bool = False
    created_by: str = ""
    created: float = 0.0
    revoked: float | None = None
    version: int = 0
    last_used: float | None = None
    limits: tuple[OwnLimit, ...] = ()
    budgets: tuple[OwnBudget, ...] = ()
    secrets: tuple[KeySecret, ...] = ()


class KeyList(Struct, frozen=True, kw_only=True, tag=True):
    """The keys that are not revoked, as of one version."""

    version: int
    keys: tuple[IssuedKey, ...] = ()


class ListReader(Struct, frozen=True, kw_only=True):
    """A gateway that reads the list.

    id: of one run of its leader process. processes: those that serve requests.
    version: which all of them have in effect. at: when it last reported, Unix seconds.
    """

    id: str
    host: str
    pid: int
    processes: int
    version: int
    at: float


KeyAudit = Callable[[IssuedKey | None, IssuedKey], AuditEvent]
"""Makes an event of a key before and after a change; `None`: there was none."""


class _KeyRow(Struct, frozen=True, kw_only=True, array_like=True):
    """The columns of `_KEY`, in order; lists are JSON."""

    name: str
    team: str
    user: str
    models: str
    max_priority: int
    tags: str
    expires: float | None
    not_before: float | None
    allowed_networks: str
    disabled: bool
    created_by: str
    created: float
    revoked: float | None
    version: int
    limits: str
    budgets: str


class KeyRows:
    """The issued keys in one database. Every method raises StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def version(self) -> int:
        with self._database.reading() as session:
            return _version(session)

    def current(self) -> KeyList:
        """Return the keys that are not revoked, from one snapshot.

        A key that this version cannot read is left out: it is refused, and all others follow their
        changes.
        """
        with self._database.reading() as session:
            keys = _select(session, "revoked IS NULL", "1 = 1", skip=_log_unreadable)
            return KeyList(version=_version(session), keys=tuple(keys))

    def all(self) -> list[IssuedKey]:
        """Return every key, the revoked ones included, by name."""
        with self._database.reading() as session:
            return _select(session, "1 = 1", "1 = 1")

    def find(self, name: str) -> IssuedKey | None:
        """Return a key, also if it was revoked."""
        with self._database.reading() as session:
            return _find(session, name)

    def add(self, key: IssuedKey, audited: KeyAudit | None = None) -> bool:
        """Add a key; return False if there is or was one of this name.

        audited: makes the event that the audit log gets in the same transaction.
        """
        with self._database.writing() as session:
            if _find(session, key.name) is not None:
                return False
            _insert(session, replace(key, version=_advance(session)))
            if audited is not None:
                append(session, (audited(None, key),))
            return True

    def change(
        self,
        name: str,
        change: Callable[[IssuedKey], IssuedKey],
        audited: KeyAudit | None = None,
    ) -> IssuedKey | None:
        """Replace a key by what `change` makes of it, in one transaction. `None`: no such key.

        audited: as for `add`. Passes on what `change` raises; nothing is written then.
        """
        with self._database.writing() as session:
            known = _find(session, name)
            if known is None:
                return None
            changed = replace(change(known), version=_advance(session))
            for table, column in (("issued_key_secrets", "key"), ("issued_keys", "name")):
                session.run(f"DELETE FROM {table} WHERE {column} = ?", name)
            _insert(session, changed)
            if audited is not None:
                append(session, (audited(known, changed),))
            return changed

    def note_used(self, times: Mapping[str, float]) -> None:
        """Store when keys were last used, unless a later time is stored. Times in Unix seconds."""
        with self._database.writing() as session:
            session.many(
                "INSERT INTO issued_key_uses (key, last_used) VALUES (?, ?)"
                " ON CONFLICT (key) DO UPDATE SET last_used = excluded.last_used"
                " WHERE issued_key_uses.last_used < excluded.last_used",
                sorted(times.items()),
            )

    def used_by_records(self, names: Sequence[str]) -> dict[str, float]:
        """Return when keys of these names were last used by the sums of usage, Unix seconds.

        To the quarter of an hour, and within the last RECENT_S only: requests that no backend was
        called for are not in it.
        """
        if not names:
            return {}
        now = time.time()
        with self._database.reading() as session:
            found = session.rows(
                tuple[str, int],
                "SELECT p.key, MAX(s.slot) FROM usage_sums s JOIN usage_payers p ON p.id = s.payer"
                " WHERE s.slot >= ? GROUP BY p.key",
                slot_of(now - RECENT_S),
            )
        wanted = frozenset(names)
        return {name: min(slot + SLOT_S, now) for name, slot in found if name in wanted}

    def readers(self) -> list[ListReader]:
        """Return the gateways that have reported, the last one first."""
        with self._database.reading() as session:
            rows = session.rows(
                tuple[str, str, int, int, int, float],
                f"SELECT {_READER} FROM issued_key_readers ORDER BY seen DESC, id",
            )
        return [
            ListReader(id=id, host=host, pid=pid, processes=processes, version=version, at=at)
            for id, host, pid, processes, version, at in rows
        ]

    def report(self, reader: ListReader, forget_before: float) -> None:
        """Store the report of a gateway, and drop those older than `forget_before`."""
        with self._database.writing() as session:
            session.run("DELETE FROM issued_key_readers WHERE seen < ?", forget_before)
            session.run(
                f"INSERT INTO issued_key_readers ({_READER}) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET processes = excluded.processes,"
                " version = excluded.version, seen = excluded.seen",
                *msgspec.structs.astuple(reader),
            )

    def leave(self, id: str) -> None:
        """Drop the report of a gateway that stops."""
        with self._database.writing() as session:
            session.run("DELETE FROM issued_key_readers WHERE id = ?", id)


def _version(session: Session) -> int:
    return session.rows(tuple[int], "SELECT version FROM issued_key_list")[0][0]


def _advance(session: Session) -> int:
    session.run("UPDATE issued_key_list SET version = version + 1")
    return _version(session)


def _find(session: Session, name: str) -> IssuedKey | None:
    found = _select(session, "name = ?", "key = ?", name)
    return found[0] if found else None


def _select(
    session: Session,
    which: str,
    whose: str,
    *values: str,
    skip: Callable[[str, Exception], None] | None = None,
) -> list[IssuedKey]:
    """which: a condition on keys. whose: one on secrets and uses, of at least these keys.

    skip: gets the name of each key that cannot be read; `None` raises msgspec.DecodeError.
    """
    secrets: dict[str, list[KeySecret]] = {}
    for name, digest, last4, created, until in session.rows(
        tuple[str, str, str, float, float | None],
        f"SELECT {_SECRET} FROM issued_key_secrets WHERE {whose} ORDER BY key, place",
        *values,
    ):
        secret = KeySecret(digest=digest, last4=last4, created=created, until=until)
        secrets.setdefault(name, []).append(secret)
    used = dict(
        session.rows(
            tuple[str, float], f"SELECT key, last_used FROM issued_key_uses WHERE {whose}", *values
        )
    )
    rows = session.rows(
        _KeyRow, f"SELECT {_KEY} FROM issued_keys WHERE {which} ORDER BY name", *values
    )
    keys: list[IssuedKey] = []
    for row in rows:
        try:
            keys.append(_key(row, used.get(row.name), secrets.get(row.name, ())))
        except msgspec.DecodeError as exc:
            if skip is None:
                raise msgspec.DecodeError(f"issued key {row.name!r}: {exc}") from exc
            skip(row.name, exc)
    return keys


def _bounded(text: str, most: Mapping[str, float], kind: type[_T]) -> _T:
    """Decode, with a number that earlier versions took and this one does not as its maximum."""

    def lowered(value: object, bound: float | None = None) -> object:
        if isinstance(value, dict):
            fields = cast("dict[str, object]", value)
            return {name: lowered(one, most.get(name)) for name, one in fields.items()}
        if isinstance(value, list):
            return [lowered(one) for one in cast("list[object]", value)]
        too_large = bound is not None and isinstance(value, int | float) and value > bound
        return bound if too_large else value

    return msgspec.convert(lowered(msgspec.json.decode(text)), kind)


def _log_unreadable(name: str, why: Exception) -> None:
    _log.error("issued key %s is refused: this version cannot read it: %s", name, why)


def _key(row: _KeyRow, last_used: float | None, secrets: Sequence[KeySecret]) -> IssuedKey:
    return IssuedKey(
        name=row.name,
        team=row.team,
        user=row.user,
        models=_texts.decode(row.models),
        max_priority=row.max_priority,
        tags=_texts.decode(row.tags),
        expires=row.expires,
        not_before=row.not_before,
        allowed_networks=_texts.decode(row.allowed_networks),
        disabled=row.disabled,
        created_by=row.created_by,
        created=row.created,
        revoked=row.revoked,
        version=row.version,
        last_used=last_used,
        limits=_bounded(row.limits, _MOST_OF_LIMITS, tuple[OwnLimit, ...]),
        budgets=_bounded(row.budgets, _MOST_OF_BUDGETS, tuple[OwnBudget, ...]),
        secrets=tuple(secrets),
    )


def _insert(session: Session, key: IssuedKey) -> None:
    session.run(
        f"INSERT INTO issued_keys ({_KEY}) VALUES ({', '.join('?' * 16)})",
        *(key.name, key.team, key.user, _text(key.models), key.max_priority, _text(key.tags)),
        *(key.expires, key.not_before, _text(key.allowed_networks), int(key.disabled)),
        *(key.created_by, key.created, key.revoked, key.version),
        *(_encode(key.limits).decode(), _encode(key.budgets).decode()),
    )
    session.many(
        f"INSERT INTO issued_key_secrets ({_SECRET}, place) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (key.name, one.digest, one.last4, one.created, one.until, place)
            for place, one in enumerate(key.secrets)
        ],
    )


def _text(values: tuple[str, ...]) -> str:
    return _encode(values).decode()
