"""Keys as operators see them: fields, state and reach, never a secret."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import Struct

from strowger_gateway.gateway.config.schema.auth import Key
from strowger_gateway.gateway.config.schema.budgets import OwnBudget
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.limits import OwnLimit
from strowger_gateway.gateway.governance.issued_keys.authority import KeyAuthority, NotIssued
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey, ListReader

SILENT_S: Final = 30.0
"""Silence after which a gateway that reads the list counts as not responding."""

State = Literal[
    "active", "disabled", "expired", "not yet valid", "revoked", "ignored", "unknown team"
]


class SecretView(Struct, frozen=True, kw_only=True):
    """last4: its last four characters. valid_until: it was replaced; null for the current one."""

    last4: str
    created: datetime
    valid_until: datetime | None = None


class KeyView(Struct, frozen=True, kw_only=True):
    """A key of the file (source `file`) or of the store (`issued`).

    state: `ignored` if the file has a key of this name. Fields after `tags` are of issued keys, but
    for last_used: of a key of the file to the quarter of an hour, of the last month.
    """

    name: str
    source: Literal["file", "issued"]
    state: State
    models: tuple[str, ...]
    max_priority: int
    team: str = ""
    tags: tuple[str, ...] = ()
    user: str = ""
    expires: datetime | None = None
    not_before: datetime | None = None
    allowed_networks: tuple[str, ...] = ()
    disabled: bool = False
    created_by: str = ""
    created: datetime | None = None
    revoked: datetime | None = None
    last_used: datetime | None = None
    limits: tuple[OwnLimit, ...] = ()
    budgets: tuple[OwnBudget, ...] = ()
    secrets: tuple[SecretView, ...] = ()


class Reach(Struct, frozen=True, kw_only=True):
    """A running gateway, and whether the last change of the key is in effect in all its processes.

    responding: it has reported within 30 seconds. seen: its last report.
    """

    host: str
    pid: int
    processes: int
    in_effect: bool
    responding: bool
    seen: datetime


class KeyDetails(Struct, frozen=True, kw_only=True):
    """in_effect: in all gateways that respond. gateways: those that report to the store."""

    key: KeyView
    in_effect: bool
    gateways: tuple[Reach, ...]


class KeyListing(Struct, frozen=True, kw_only=True):
    keys: tuple[KeyView, ...]


class NewKeyView(Struct, frozen=True, kw_only=True):
    """secret: shown this once; only its digest is stored."""

    key: KeyView
    secret: str


class NewKeysView(Struct, frozen=True, kw_only=True):
    """Keys that were issued together, and those that could not be, with the reason."""

    keys: tuple[NewKeyView, ...]
    failed: tuple[NotIssued, ...] = ()


def view_of(key: IssuedKey, config: Config, clock: Callable[[], float] = time.time) -> KeyView:
    """Return what operators see of an issued key. clock: Unix seconds."""
    at = clock()
    return KeyView(
        name=key.name,
        source="issued",
        state=_state(key, config, at),
        models=key.models,
        max_priority=key.max_priority,
        team=key.team,
        user=key.user,
        tags=key.tags,
        expires=_instant(key.expires),
        not_before=_instant(key.not_before),
        allowed_networks=key.allowed_networks,
        disabled=key.disabled,
        created_by=key.created_by,
        created=_instant(key.created),
        revoked=_instant(key.revoked),
        last_used=_instant(key.last_used),
        limits=key.limits,
        budgets=key.budgets,
        secrets=tuple(
            SecretView(
                last4=one.last4,
                created=datetime.fromtimestamp(one.created, UTC),
                valid_until=_instant(one.until),
            )
            for one in key.secrets
            if one.until is None or one.until > at
        ),
    )


def view_of_file_key(key: Key, last_used: float | None = None) -> KeyView:
    """last_used: Unix seconds, to the quarter of an hour."""
    return KeyView(
        name=key.name,
        source="file",
        state="active",
        models=key.models,
        max_priority=key.max_priority,
        team=key.team or "",
        tags=key.tags,
        last_used=_instant(last_used),
    )


def list_keys(keys: KeyAuthority, config: Config) -> KeyListing:
    """Return all keys of the file and of the store. Blocks. Raises StoreUnavailable."""
    names = [one.name for one in config.auth.keys]
    return listing(keys.rows.all(), config, keys.rows.used_by_records(names))


def listing(
    issued: Sequence[IssuedKey], config: Config, used: Mapping[str, float] | None = None
) -> KeyListing:
    """Return all keys: those of the file first, in its order. used: when, by name."""
    times = used or {}
    of_file = (view_of_file_key(key, times.get(key.name)) for key in config.auth.keys)
    return KeyListing(keys=(*of_file, *(view_of(key, config) for key in issued)))


def details(
    key: IssuedKey,
    readers: Sequence[ListReader],
    config: Config,
    clock: Callable[[], float] = time.time,
) -> KeyDetails:
    """Return a key and where its last change is in effect. clock: Unix seconds."""
    at = clock()
    gateways = tuple(
        Reach(
            host=one.host,
            pid=one.pid,
            processes=one.processes,
            in_effect=one.version >= key.version,
            responding=at - one.at < SILENT_S,
            seen=datetime.fromtimestamp(one.at, UTC),
        )
        for one in readers
    )
    return KeyDetails(
        key=view_of(key, config, clock),
        in_effect=all(one.in_effect for one in gateways if one.responding),
        gateways=gateways,
    )


def _state(key: IssuedKey, config: Config, at: float) -> State:
    if key.revoked is not None:
        return "revoked"
    if any(one.name == key.name for one in config.auth.keys):
        return "ignored"
    if key.disabled:
        return "disabled"
    if key.expires is not None and at >= key.expires:
        return "expired"
    if key.not_before is not None and at < key.not_before:
        return "not yet valid"
    if key.team and all(team.name != key.team for team in config.teams):
        return "unknown team"
    return "active"


def _instant(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)
