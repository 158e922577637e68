"""Issue the keys of LiteLLM in the store, with what they have spent. A second run changes nothing.

What was spent is written as sums that `spend` has for requests, under a model of its own, so a
later import can replace it. Budgets of keys, teams and users then begin with it.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.gateway.audit.event import Actor
from strowger_gateway.gateway.cli.litellm_import.database.found import FoundKey, People
from strowger_gateway.gateway.cli.litellm_import.ledger import Listed
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.governance.issued_keys.audit import key_event
from strowger_gateway.gateway.storage.sql.database import Session
from strowger_gateway.gateway.storage.sql.key_rows import IssuedKey, KeyAudit, KeySecret
from strowger_gateway.gateway.storage.sql.spend_rows import (
    NANOS,
    Amount,
    Payer,
    Spend,
    add_spend,
    slot_of,
)
from strowger_gateway.gateway.storage.sql.sql import SqlStore

IMPORTED: Final = "imported from LiteLLM"
"""`created_by` of the keys, and the model of what they have spent."""

_SPENT: Final = """SELECT slot, key, team, "user", CAST(SUM(nanos) AS BIGINT) FROM spend
    WHERE model = ? GROUP BY slot, key, team, "user" """
_FIELDS: Final = ("team", "user", "models", "tags", "expires", "disabled", "limits", "budgets")


class WrittenKeys(Struct, frozen=True, kw_only=True):
    """The names of keys. differ: have other settings in LiteLLM, and `update` was not asked for.

    spent: payers whose spend was written or replaced.
    """

    issued: tuple[str, ...]
    changed: tuple[str, ...]
    same: tuple[str, ...]
    differ: tuple[str, ...]
    listed: tuple[Listed, ...]
    spent: int


class KeyWriter:
    """Writes into one store. update: settings of keys that an earlier run has issued."""

    def __init__(self, store: SqlStore, config: Config, by: Actor, *, update: bool) -> None:
        self._store = store
        self._config = config
        self._by = by
        self._update = update
        self._listed: list[Listed] = []

    def write(self, people: People) -> WrittenKeys:
        """Issue all keys. Raises StoreUnavailable."""
        known = self._store.issued_keys.all()
        by_digest = {secret.digest: key for key in known for secret in key.secrets}
        taken = {key.name for key in known} | {key.name for key in self._config.auth.keys}
        teams = {team.name for team in self._config.teams}
        done: dict[str, list[str]] = {"issued": [], "changed": [], "same": [], "differ": []}
        names: dict[str, str] = {}
        for found in people.keys:
            key = self._issued(found, teams)
            here = by_digest.get(found.digest)
            if here is None:
                names[found.name] = self._add(key, found, taken, done)
                continue
            names[found.name] = here.name
            if here.created_by != IMPORTED or _settings(here) == _settings(key):
                done["same"].append(here.name)
            elif not self._update:
                done["differ"].append(here.name)
            else:
                done["changed"].append(here.name)
                changed = partial(_with_settings, key)
                self._store.issued_keys.change(here.name, changed, self._audit())
        digests_there = {one.digest for one in people.keys}
        for key in known:
            digests = {secret.digest for secret in key.secrets}
            if key.created_by == IMPORTED and digests and not digests & digests_there:
                gone = Listed(
                    f"key {key.name}",
                    "LiteLLM does not have it any more",
                    f"end it here: strowger keys revoke {key.name}",
                )
                self._listed.append(gone)
        times = {names[one.name]: one.last_used for one in people.keys if one.last_used is not None}
        wanted = _spend(people, names)
        return WrittenKeys(
            issued=tuple(done["issued"]),
            changed=tuple(done["changed"]),
            same=tuple(done["same"]),
            differ=tuple(done["differ"]),
            listed=tuple(self._listed),
            spent=self._spend(wanted, times),
        )

    def _add(
        self, key: IssuedKey, found: FoundKey, taken: set[str], done: Mapping[str, list[str]]
    ) -> str:
        if key.name in taken:
            free = f"{found.name[:115]}-{found.digest[:8]}"
            if free in taken:
                self._note(found, "was issued and revoked here", "nothing: it stays revoked")
                return key.name
            self._note(found, "another key has this name", f"nothing: it is {free} here")
            key = replace(key, name=free)
        taken.add(key.name)
        done["issued"].append(key.name)
        self._store.issued_keys.add(key, self._audit())
        return key.name

    def _issued(self, found: FoundKey, teams: set[str]) -> IssuedKey:
        if found.team and found.team not in teams:
            self._note(
                found,
                f"its team {found.team!r} is not in the configuration, so it is refused",
                "add the team, as `strowger import litellm --database … -o` writes it",
            )
        current = KeySecret(digest=found.digest, last4=found.last4, created=found.created)
        earlier = tuple(
            KeySecret(digest=one.digest, last4="", created=found.created, until=one.until)
            for one in found.old[:1]
        )
        return IssuedKey(
            name=found.name,
            team=found.team,
            user=found.user,
            models=found.models,
            tags=found.tags,
            expires=found.expires,
            disabled=found.disabled,
            created_by=IMPORTED,
            created=found.created,
            limits=found.limits,
            budgets=found.budgets,
            secrets=(current, *earlier),
        )

    def _audit(self) -> KeyAudit | None:
        return None if self._config.audit.log == "off" else partial(key_event, self._by, 0.0)

    def _note(self, key: FoundKey, reason: str, remedy: str) -> None:
        self._listed.append(Listed(f"key {key.name}", reason, remedy))

    def _spend(self, wanted: Mapping[Payer, int], times: Mapping[str, float]) -> int:
        """Replace what an earlier run has written; return for how many payers it differs."""
        with self._store.database.writing() as session:
            stored = _stored(session)
            sums: dict[Payer, int] = {}
            for _, payer, nanos in stored:
                sums[payer] = sums.get(payer, 0) + nanos
            differ = {
                payer for payer in {*sums, *wanted} if sums.get(payer, 0) != wanted.get(payer, 0)
            }
            if differ:
                now = time.time()
                gone = [
                    Spend(slot, payer, Amount(-nanos))
                    for slot, payer, nanos in stored
                    if payer in differ and nanos
                ]
                new = [
                    Spend(slot_of(now), payer, Amount(wanted[payer]))
                    for payer in differ
                    if wanted.get(payer)
                ]
                add_spend(session, _added(gone + new), now)
        if times:
            self._store.issued_keys.note_used(times)
        return len(differ)


def _settings(key: IssuedKey) -> tuple[object, ...]:
    return tuple(getattr(key, name) for name in _FIELDS)


def _with_settings(wanted: IssuedKey, known: IssuedKey) -> IssuedKey:
    return replace(known, **{name: getattr(wanted, name) for name in _FIELDS})


def _stored(session: Session) -> list[tuple[int, Payer, int]]:
    rows = session.rows(tuple[int, str, str, str, int], _SPENT, IMPORTED)
    return [(slot, _payer(key, team, user), nanos) for slot, key, team, user, nanos in rows]


def _payer(key: str, team: str, user: str) -> Payer:
    return Payer(key=key, team=team, user=user, route="", model=IMPORTED)


def _spend(people: People, names: Mapping[str, str]) -> dict[Payer, int]:
    """Return what each payer has spent, so that the sum of each key, team and user is LiteLLM's.

    The rest of a team or user, of keys that are gone, is a row without a key. Where the keys have
    spent more than their team (its period has begun later), their rows name no team.
    """
    of_teams, of_users = _sums(people.keys, "team"), _sums(people.keys, "user")
    teams, users = _apart(of_teams, people.team_spend), _apart(of_users, people.user_spend)
    found: dict[Payer, int] = {}
    for key in people.keys:
        team = "" if key.team in teams else key.team
        user = "" if key.user in users else key.user
        _add_to(found, _payer(names[key.name], team, user), key.spend)
    for team, usd in people.team_spend.items():
        rest = usd if team in teams else usd - of_teams.get(team, 0.0)
        _add_to(found, _payer("", team, ""), rest)
    for user, usd in people.user_spend.items():
        rest = usd if user in users else usd - of_users.get(user, 0.0)
        _add_to(found, _payer("", "", user), rest)
    return {payer: nanos for payer, nanos in found.items() if nanos}


def _sums(keys: Sequence[FoundKey], field: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for key in keys:
        name = getattr(key, field)
        found[name] = found.get(name, 0.0) + key.spend
    return found


def _apart(of_keys: Mapping[str, float], spend: Mapping[str, float]) -> set[str]:
    """Return the teams, or users, whose keys have spent more than they."""
    return {name for name, usd in spend.items() if of_keys.get(name, 0.0) > usd + 1 / NANOS}


def _add_to(found: dict[Payer, int], payer: Payer, usd: float) -> None:
    found[payer] = found.get(payer, 0) + max(0, round(usd * NANOS))


def _added(spend: Sequence[Spend]) -> list[Spend]:
    """Add up the amounts of one slot and payer: an insert has each once."""
    sums: dict[tuple[int, Payer], Amount] = {}
    for one in spend:
        sums[one.slot, one.payer] = sums.get((one.slot, one.payer), Amount()) + one.amount
    return [Spend(slot, payer, sums[slot, payer]) for slot, payer in sorted(sums)]
