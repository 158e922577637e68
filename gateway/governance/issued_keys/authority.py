"""Issue, change, rotate and revoke keys: the rules for the API and the command. Calls block."""

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from ipaddress import ip_network
from typing import Annotated, Final, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.audit.event import Actor
from strowger_gateway.gateway.config.checks.models import matches
from strowger_gateway.gateway.config.problems import nearest
from strowger_gateway.gateway.config.schema.budgets import OwnBudgets
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.schema.limits import OwnLimits
from strowger_gateway.gateway.governance.issued_keys.audit import key_event
from strowger_gateway.gateway.governance.issued_keys.rule_checks import check_rules
from strowger_gateway.gateway.governance.issued_keys.secret import LAST, digest_of, new_secret
from strowger_gateway.gateway.storage.sql.errors import StoreUnavailable
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey, KeyAudit, KeyRows, KeySecret
from strowger_gateway.schemas.errors import Conflict, InvalidRequest, RouteNotFound

LONGEST_OVERLAP_S: Final = 90 * 86_400.0
MOST_AT_ONCE: Final = 100
"""Keys that are issued together."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:+-]{0,127}")
_NO_NUL: Final = r"^[^\x00]*$"
Permit = Callable[[str], None]
"""Raises Forbidden for a team whose keys may not be managed; "" is the keys without a team."""

_T = TypeVar("_T")

_Text = Annotated[str, Meta(max_length=256, pattern=_NO_NUL)]
_Item = Annotated[str, Meta(min_length=1, max_length=256, pattern=_NO_NUL)]
_Names = Annotated[tuple[_Item, ...], Meta(min_length=1, max_length=1000)]
_Items = Annotated[tuple[_Item, ...], Meta(max_length=100)]
_Instant = Annotated[datetime, Meta(tz=True)]


class KeyFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a key that can be set and changed; those that are not given stay.

    expires, not_before: RFC 3339 with a time zone; null means unlimited. team: "" means no team.
    limits, budgets: of this key alone, as in the configuration without `who`; all of them. null
    means none.
    """

    team: _Text | UnsetType = UNSET
    user: _Text | UnsetType = UNSET
    models: _Names | UnsetType = UNSET
    max_priority: Annotated[int, Meta(ge=1, le=5)] | UnsetType = UNSET
    tags: _Items | UnsetType = UNSET
    expires: _Instant | None | UnsetType = UNSET
    not_before: _Instant | None | UnsetType = UNSET
    allowed_networks: _Items | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    limits: OwnLimits | None | UnsetType = UNSET
    budgets: OwnBudgets | None | UnsetType = UNSET


class KeyEvent(Struct, frozen=True, kw_only=True):
    """A change of a key, without its secret. by: whose. fields: those that were given."""

    action: Literal["created", "changed", "rotated", "revoked"]
    name: str
    by: str
    at: float
    fields: tuple[str, ...] = ()


class Issued(Struct, frozen=True, kw_only=True):
    """A key and its new secret, which is not stored and cannot be shown again."""

    key: IssuedKey
    secret: str


class NotIssued(Struct, frozen=True, kw_only=True):
    """A key that could not be issued, and why."""

    name: str
    message: str


class KeyBatch(Struct, frozen=True, kw_only=True):
    """Keys that were issued together."""

    issued: tuple[Issued, ...]
    failed: tuple[NotIssued, ...] = ()


def every_team(team: str) -> None:
    """Permit everything, as for an admin."""


class KeyAuthority:
    """Issued keys in one store. Every method raises StoreUnavailable."""

    def __init__(
        self,
        rows: KeyRows,
        config: Callable[[], Config],
        record: Callable[[KeyEvent], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """config: returns the current one. record: gets every change, after it is stored.

        The audit log gets every change in the transaction that stores it.
        """
        self.rows = rows
        self._config = config
        self._record = record
        self._clock = clock

    def create(
        self, name: str, fields: KeyFields, by: Actor, permit: Permit = every_team
    ) -> Issued:
        """Raises InvalidRequest, Conflict, and what `permit` raises for the key's team."""
        key, secret = self._new(name, fields, by, permit)
        if not self.rows.add(key, self._audited(by)):
            raise _taken(name)
        self._record(
            KeyEvent(
                action="created", name=name, by=by.label, at=key.created, fields=_given(fields)
            )
        )
        return Issued(key=self._found(self.rows.find(name), name), secret=secret)

    def create_all(
        self, names: Sequence[str], fields: KeyFields, by: Actor, permit: Permit = every_team
    ) -> KeyBatch:
        """Issue a key of each name with the same fields; none if one of them may not be issued.

        Those that fail later, because the store is away or another operator has taken a name, are
        listed: the secrets of the others cannot be shown again. Raises as `create`.
        """
        names = tuple(names)
        if not 1 <= len(names) <= MOST_AT_ONCE:
            raise InvalidRequest(f"names: expected 1 to {MOST_AT_ONCE} names", param="names")
        twice = next((one for one, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise InvalidRequest(f"names: {twice!r} is given twice", param="names")
        for name in names:
            self._new(name, fields, by, permit)
            if self.rows.find(name) is not None:
                raise _taken(name)
        issued: list[Issued] = []
        failed: list[NotIssued] = []
        for name in names:
            try:
                issued.append(self.create(name, fields, by, permit))
            except (Conflict, StoreUnavailable) as exc:
                if not issued and len(names) == len(failed) + 1:
                    raise
                failed.append(NotIssued(name=name, message=exc.message))
        return KeyBatch(issued=tuple(issued), failed=tuple(failed))

    def _new(
        self, name: str, fields: KeyFields, by: Actor, permit: Permit
    ) -> tuple[IssuedKey, str]:
        """Return a key and its secret. Raises as `create`, but for a name that is taken."""
        permit("" if isinstance(fields.team, UnsetType) else fields.team)
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                "name: expected 1 to 128 letters, digits and . _ @ : + -, starting with a letter "
                "or digit",
                param="name",
            )
        self._refuse_file_key(name)
        at = self._clock()
        secret = new_secret()
        key = self._with_fields(
            IssuedKey(name=name, created_by=by.label, created=at, secrets=(_stored(secret, at),)),
            fields,
        )
        if key.expires is not None and key.expires <= at:
            raise InvalidRequest("expires: is in the past", param="expires")
        return key, secret

    def change(
        self, name: str, fields: KeyFields, by: Actor, permit: Permit = every_team
    ) -> IssuedKey:
        """Raises RouteNotFound, Conflict, InvalidRequest, and what `permit` raises.

        permit: called with the key's team before and after the change.
        """
        self._refuse_file_key(name)

        def changed(key: IssuedKey) -> IssuedKey:
            permit(key.team)
            new = self._with_fields(_unrevoked(key), fields)
            permit(new.team)
            return new

        key = self._found(self.rows.change(name, changed, self._audited(by)), name)
        self._record(
            KeyEvent(
                action="changed", name=name, by=by.label, at=self._clock(), fields=_given(fields)
            )
        )
        return key

    def rotate(self, name: str, overlap_s: float, by: Actor, permit: Permit = every_team) -> Issued:
        """Replace the secret; the last one stays valid for `overlap_s`, an earlier one does not.

        Raises RouteNotFound, Conflict, InvalidRequest, and what `permit` raises.
        """
        if not 0 <= overlap_s <= LONGEST_OVERLAP_S:
            raise InvalidRequest(
                f"overlap_s: expected 0 to {LONGEST_OVERLAP_S:.0f} seconds", param="overlap_s"
            )
        self._refuse_file_key(name)
        secret, at = new_secret(), self._clock()

        def rotated(key: IssuedKey) -> IssuedKey:
            permit(key.team)
            secrets = _unrevoked(key).secrets
            old = secrets[:1] if overlap_s else ()
            kept = (replace(one, until=at + overlap_s) for one in old)
            return replace(key, secrets=(_stored(secret, at), *kept))

        audited = self._audited(by, overlap_s)
        key = self._found(self.rows.change(name, rotated, audited), name)
        self._record(KeyEvent(action="rotated", name=name, by=by.label, at=at))
        return Issued(key=key, secret=secret)

    def revoke(self, name: str, by: Actor, permit: Permit = every_team) -> IssuedKey:
        """Revoke for ever: the digests of its secrets are deleted. A second time changes nothing.

        Raises RouteNotFound, Conflict for a key of the file, and what `permit` raises.
        """
        at = self._clock()

        def revoked(key: IssuedKey) -> IssuedKey:
            permit(key.team)
            return replace(key, revoked=at if key.revoked is None else key.revoked, secrets=())

        key = self.rows.change(name, revoked, self._audited(by))
        if key is None:
            self._refuse_file_key(name)
        key = self._found(key, name)
        self._record(KeyEvent(action="revoked", name=name, by=by.label, at=at))
        return key

    def find(self, name: str) -> IssuedKey:
        """Raises RouteNotFound."""
        return self._found(self.rows.find(name), name)

    def _audited(self, by: Actor, overlap_s: float = 0.0) -> KeyAudit | None:
        """Return what makes the audit event of a change, `None` if none is recorded."""
        if self._config().audit.log == "off":
            return None
        return partial(key_event, by, overlap_s)

    def _found(self, key: IssuedKey | None, name: str) -> IssuedKey:
        if key is None:
            names = [one.name for one in self.rows.all()]
            raise RouteNotFound(
                f"no issued key is named {name!r}{nearest(name, names)}", code="key_not_found"
            )
        return key

    def _refuse_file_key(self, name: str) -> None:
        if any(key.name == name for key in self._config().auth.keys):
            raise Conflict(
                f"the key {name!r} is in the configuration file, which is the only place to "
                "change it",
                param="name",
                code="key_in_file",
            )

    def _with_fields(self, key: IssuedKey, fields: KeyFields) -> IssuedKey:
        """Raises InvalidRequest."""
        team = _or(fields.team, key.team)
        if team and fields.team is not UNSET:
            teams = [one.name for one in self._config().teams]
            if team not in teams:
                hint = nearest(team, teams) or "; the configuration has no teams"
                raise InvalidRequest(f"team: no team is named {team!r}{hint}", param="team")
        changed = replace(
            key,
            team=team,
            user=_or(fields.user, key.user),
            models=_or(fields.models, key.models),
            max_priority=_or(fields.max_priority, key.max_priority),
            tags=_or(fields.tags, key.tags),
            expires=_seconds("expires", fields.expires, key.expires),
            not_before=_seconds("not_before", fields.not_before, key.not_before),
            allowed_networks=key.allowed_networks
            if isinstance(fields.allowed_networks, UnsetType)
            else _networks(fields.allowed_networks),
            disabled=_or(fields.disabled, key.disabled),
            limits=() if fields.limits is None else _or(fields.limits, key.limits),
            budgets=() if fields.budgets is None else _or(fields.budgets, key.budgets),
        )
        if fields.models is not UNSET:
            self._check_models(changed.models)
        if (
            changed.expires is not None
            and changed.not_before is not None
            and changed.expires <= changed.not_before
        ):
            raise InvalidRequest("expires: is not after not_before", param="expires")
        if fields.limits is not UNSET or fields.budgets is not UNSET:
            check_rules(changed, self._config())
        return changed

    def _check_models(self, patterns: Sequence[str]) -> None:
        names = [n for model in self._config().models for n in (model.name, *model.aliases)]
        for pattern in patterns:
            if "*" in pattern[:-1]:
                message = f"models: {pattern!r} has a * before its end"
                raise InvalidRequest(message, param="models")
            if not any(matches(pattern, name) or matches(name, pattern) for name in names):
                message = f"models: no model is named {pattern!r}{nearest(pattern, names)}"
                raise InvalidRequest(message, param="models")


def _taken(name: str) -> Conflict:
    return Conflict(
        f"name: there is or was a key {name!r}; a name is issued once, because records "
        "and stored responses belong to it",
        param="name",
        code="key_exists",
    )


def _stored(secret: str, at: float) -> KeySecret:
    return KeySecret(digest=digest_of(secret), last4=secret[-LAST:], created=at)


def _unrevoked(key: IssuedKey) -> IssuedKey:
    if key.revoked is not None:
        raise Conflict(
            f"the key {key.name!r} was revoked, which is final; issue another one",
            code="key_revoked",
        )
    return key


def _given(fields: KeyFields) -> tuple[str, ...]:
    return tuple(name for name in KeyFields.__struct_fields__ if getattr(fields, name) is not UNSET)


def _or(given: _T | UnsetType, known: _T) -> _T:
    return known if isinstance(given, UnsetType) else given


def _seconds(field: str, given: datetime | None | UnsetType, known: float | None) -> float | None:
    """Raises InvalidRequest."""
    if isinstance(given, UnsetType):
        return known
    try:
        return None if given is None else given.astimezone(UTC).timestamp()
    except OverflowError:
        message = f"{field}: expected a time from the year 1 to 9999 in UTC"
        raise InvalidRequest(message, param=field) from None


def _networks(given: Sequence[str]) -> tuple[str, ...]:
    """Raises InvalidRequest."""
    try:
        return tuple(str(ip_network(one)) for one in given)
    except ValueError as exc:
        message = f"allowed_networks: {exc}; write a network as 10.1.0.0/16"
        raise InvalidRequest(message, param="allowed_networks") from None
