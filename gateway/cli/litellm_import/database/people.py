"""Translate keys, teams, users, organisations and end users. What has no counterpart is listed."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from strowger_gateway.gateway.cli.litellm_import.database.found import FoundKey, OldSecret, People
from strowger_gateway.gateway.cli.litellm_import.database.reading import (
    LiteLLMDatabase,
    Row,
    document,
    number,
    seconds,
    text,
    texts,
)
from strowger_gateway.gateway.cli.litellm_import.database.rest import (
    KEY_COLUMNS,
    TEAM_COLUMNS,
    USER_COLUMNS,
    leftovers,
    rest_of,
)
from strowger_gateway.gateway.cli.litellm_import.database.rules import FoundRules, Note, rules_of
from strowger_gateway.gateway.cli.litellm_import.ledger import Listed
from strowger_gateway.gateway.config.checks.models import matches
from strowger_gateway.gateway.config.schema.budgets import OwnBudget
from strowger_gateway.gateway.config.schema.limits import OwnLimit

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._@:+-]+")
_EVERYTHING: Final = ("all-team-models", "all-proxy-models")
_NOTHING: Final = "no-default-models"
_DASHBOARD: Final = "litellm-dashboard"
_ADMIN: Final = "default_user_id"
_WHOLE: Final = "litellm-proxy-budget"
"""A user that stands for the proxy; its budget is `litellm_settings.max_budget`."""

_MOST_RULES: Final = 20
_MOST_MODELS: Final = 1_000
_MOST_USD: Final = 1e9
"""No budget is larger, so what exceeds it exceeds every budget."""

_LONGEST, _LONGEST_USER, _LONGEST_MODEL = 240, 256, 256
"""Characters; a name of 240 has room for what makes it unique."""

_NO_ROW: Final[Row] = {}


class Translator:
    """Translates one database. models: names by access group, of the models that are known."""

    def __init__(self, database: LiteLLMDatabase, groups: Mapping[str, Sequence[str]]) -> None:
        self._database = database
        self._listed: list[Listed] = []
        self._groups = {**groups}
        self._by_group_id: dict[str, tuple[str, ...]] = {}
        for row in database.rows("AccessGroupTable"):
            members = texts(row, "access_model_names")
            self._groups[text(row, "access_group_name")] = members
            self._by_group_id[text(row, "access_group_id")] = members
        self._budgets = {text(row, "budget_id"): row for row in database.rows("BudgetTable")}
        self._team_names = _unique(
            (text(row, "team_id"), (text(row, "team_alias") or text(row, "team_id"))[:_LONGEST])
            for row in database.rows("TeamTable")
        )
        self._users = {
            text(row, "user_id"): row
            for row in database.rows("UserTable")
            if text(row, "user_id") != _WHOLE
        }
        self._now = time.time()
        self._members = {
            (text(row, "user_id"), text(row, "team_id")): row
            for row in database.rows("TeamMembership")
            if text(row, "budget_id")
        }

    def people(self) -> People:
        teams = [self._team(row) for row in self._database.rows("TeamTable")]
        limits, budgets = self._user_rules()
        keys = self._keys()
        names = self._team_names
        self._listed += rest_of(self._database, self._budgets, names)
        return People(
            keys=keys,
            teams=tuple(teams),
            limits=tuple(limits),
            budgets=tuple(budgets),
            team_spend={
                self._team_names[text(row, "team_id")]: self._spent(row)
                for row in self._database.rows("TeamTable")
                if number(row, "max_budget") is not None
            },
            user_spend={
                user: self._spent(row)
                for user, row in self._users.items()
                if user != _ADMIN and _can_be(user) and number(row, "max_budget") is not None
            },
            listed=tuple(self._listed),
        )

    def _team(self, row: Row) -> dict[str, object]:
        name = self._team_names[text(row, "team_id")]
        note = self._noting(f"team {name}")
        rules = rules_of(row, _NO_ROW, note)
        models = self._models(row, note)
        if row.get("blocked") is True or rules.closed:
            note(rules.closed or "blocked", "its keys are refused", "its keys are disabled here")
        leftovers(row, TEAM_COLUMNS, note)
        team: dict[str, object] = {"name": name}
        if models != ("*",):
            team["models"] = list(models)
        if rules.limits:
            team["limits"] = list(rules.limits)
        if rules.budgets:
            team["budgets"] = list(rules.budgets)
        return team

    def _closed_teams(self) -> set[str]:
        return {
            text(row, "team_id")
            for row in self._database.rows("TeamTable")
            if row.get("blocked") is True or rules_of(row, _NO_ROW, _ignore).closed
        }

    def _keys(self) -> tuple[FoundKey, ...]:
        old: dict[str, list[OldSecret]] = {}
        for row in self._database.rows("DeprecatedVerificationToken"):
            until, digest = seconds(row, "revoke_at"), text(row, "token")
            if until is not None and _DIGEST.fullmatch(digest):
                replaced = OldSecret(digest=digest, until=until)
                old.setdefault(text(row, "active_token_id"), []).append(replaced)
        rows = [
            row
            for row in self._database.rows("VerificationToken")
            if text(row, "team_id") != _DASHBOARD
        ]
        names = _unique((text(row, "token"), _key_name(row)) for row in rows)
        closed = self._closed_teams()
        counts: dict[tuple[str, str], int] = {}
        for row in rows:
            whose = (text(row, "user_id"), text(row, "team_id"))
            counts[whose] = counts.get(whose, 0) + 1
        found: list[FoundKey] = []
        for row in rows:
            digest, name = text(row, "token"), names[text(row, "token")]
            if not _DIGEST.fullmatch(digest):
                self._list(
                    f"key {name}",
                    "its token is not a SHA-256 digest, so no secret opens it here",
                    "issue a new key with `strowger keys create`",
                )
                continue
            whose = (text(row, "user_id"), text(row, "team_id"))
            alone = counts[whose] == 1
            found.append(self._key(row, name, closed, tuple(old.get(digest, ())), alone=alone))
        return tuple(found)

    def _key(
        self, row: Row, name: str, closed: set[str], old: tuple[OldSecret, ...], *, alone: bool
    ) -> FoundKey:
        note = self._noting(f"key {name}")
        team, user = text(row, "team_id"), text(row, "user_id")
        linked = self._budgets.get(text(row, "budget_id"), _NO_ROW)
        rules = rules_of(row, linked, note)
        member = self._members.get((user, team), _NO_ROW)
        if member and alone:
            of_member = self._budgets.get(text(member, "budget_id"), _NO_ROW)
            rules = _joined(rules, rules_of({}, of_member, note))
        elif member:
            note(
                "team member's budget",
                "is one for several keys of this user in this team",
                "give each key its share with `strowger keys change --budget`",
            )
        if team and team not in self._team_names:
            note("team_id", f"there is no team {team!r}", "the key has no team here")
        for place in ("limits", "budgets"):
            if len(getattr(rules, place)) > _MOST_RULES:
                note(place, f"more than {_MOST_RULES}", "the first ones are kept")
        if user and not _can_be(user):
            note("user_id", f"has more than {_LONGEST_USER} characters", "the key has no user here")
        shut = row.get("blocked") is True or bool(rules.closed) or team in closed
        if rules.closed:
            note(rules.closed, "is below 1, which refuses every request", "the key is disabled")
        models = self._models(row, note)
        if member:
            of_member = self._budgets.get(text(member, "budget_id"), _NO_ROW)
            models = _both(models, self._named(texts(of_member, "allowed_models"), note) or ("*",))
        owner = self._users.get(user, _NO_ROW)
        if not team and owner:
            models = _both(models, self._models(owner, note))
        if _NOTHING in models and len(models) == 1:
            note("models", f"{_NOTHING} permits none", "the key is disabled; give it models")
            shut = True
        leftovers(row, KEY_COLUMNS, note)
        tags = document(row, "metadata").get("tags")
        return FoundKey(
            name=name,
            digest=text(row, "token"),
            last4=text(row, "key_name")[-4:],
            team=self._team_names.get(team, ""),
            user=user if user != _ADMIN and _can_be(user) else "",
            models=tuple(one for one in models if one != _NOTHING) or ("*",),
            tags=tuple(dict.fromkeys(str(one)[:256] for one in tags if one))[:100]
            if isinstance(tags, list)
            else (),
            expires=seconds(row, "expires"),
            disabled=shut,
            created=seconds(row, "created_at") or 0.0,
            last_used=seconds(row, "last_active"),
            limits=tuple(msgspec.convert(one, OwnLimit) for one in rules.limits[:_MOST_RULES]),
            budgets=tuple(msgspec.convert(one, OwnBudget) for one in rules.budgets[:_MOST_RULES]),
            old=old,
            spend=self._spent(row, linked) if _is_held(rules) else 0.0,
        )

    def _spent(self, row: Row, linked: Row = _NO_ROW) -> float:
        """Return the dollars of the period; 0 if it has ended, which a proxy notes only later."""
        own = row if number(row, "max_budget") is not None else linked
        ends = seconds(own, "budget_reset_at")
        if ends is not None and ends <= self._now and own.get("budget_duration"):
            return 0.0
        return min(max(0.0, number(row, "spend") or 0.0), _MOST_USD)

    def _models(self, row: Row, note: Note) -> tuple[str, ...]:
        """Return the models that a row permits, with access groups expanded."""
        granted = [
            one for id in texts(row, "access_group_ids") for one in self._by_group_id.get(id, ())
        ]
        named = texts(row, "models")
        if not named and not granted:
            return ("*",)
        return self._named((*named, *granted), note) or (_NOTHING,)

    def _named(self, names: Sequence[str], note: Note) -> tuple[str, ...]:
        """Return the models that names and access groups mean; () for none."""
        models: list[str] = []
        for one in names:
            if one in _EVERYTHING or one == "*":
                return ("*",)
            if not 0 < len(one) <= _LONGEST_MODEL:
                continue  # no request names it
            if one in self._groups:
                models += self._groups[one]
            elif "*" in one[:-1]:
                note("models", f"{one!r} has a * before its end", "name the models")
            else:
                models.append(one)
        if len(models) > _MOST_MODELS:
            note("models", f"more than {_MOST_MODELS:,}", "the first ones are kept; use a *")
        return tuple(dict.fromkeys(models))[:_MOST_MODELS]

    def _user_rules(self) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
        limits: list[dict[str, object]] = []
        budgets: list[dict[str, object]] = []
        with_teams = {
            text(row, "user_id")
            for row in self._database.rows("VerificationToken")
            if text(row, "team_id")
        }
        for user, row in self._users.items():
            note = self._noting(f"user {user}")
            rules = rules_of(row, _NO_ROW, note)
            leftovers(row, USER_COLUMNS, note)
            if rules.closed:
                note(
                    rules.closed,
                    "is below 1, which refuses every request",
                    "disable the user's keys",
                )
            if user == _ADMIN or not (rules.limits or rules.budgets):
                continue
            if not _can_be(user):
                why = f"a user has 1 to {_LONGEST_USER} characters"
                note("user_id", why, "set its limits and budgets on its keys")
                continue
            if user in with_teams:
                note(
                    "max_budget",
                    "LiteLLM does not count the user's keys of teams, and here all of them count",
                    "remove the user of those keys (`strowger keys change --user ''`)",
                )
            for place, rule in enumerate(rules.limits):
                name = _rule_of(user, place)
                limits.append({**rule, "name": name, "who": {"user": user}})
            for place, rule in enumerate(rules.budgets):
                name = _rule_of(user, place)
                budgets.append({**rule, "name": name, "who": {"user": user}})
        return limits, budgets

    def _noting(self, whose: str) -> Note:
        def note(field: str, reason: str, remedy: str) -> None:
            self._list(f"{whose}.{field}", reason, remedy)

        return note

    def _list(self, path: str, reason: str, remedy: str) -> None:
        shown = path if path.isprintable() else ascii(path)
        self._listed.append(Listed(shown, reason, remedy))


def _is_held(rules: FoundRules) -> bool:
    """Whether a budget counts all that is spent; without one, it would count for later ones."""
    return any("models" not in budget for budget in rules.budgets)


def _ignore(field: str, reason: str, remedy: str) -> None:
    """It is listed where the row itself is translated."""


def _joined(one: FoundRules, other: FoundRules) -> FoundRules:
    """Return the rules of both; those of the second have names of their own."""
    limits = tuple({"name": f"member-{at}", **rule} for at, rule in enumerate(other.limits))
    budgets = tuple(
        {**rule, "name": f"member-{rule.get('name', rule['per'])}"[:64]} for rule in other.budgets
    )
    return FoundRules(
        limits=one.limits + limits,
        budgets=one.budgets + budgets,
        closed=one.closed or other.closed,
    )


def _can_be(user: str) -> bool:
    return 0 < len(user) <= _LONGEST_USER


def _rule_of(user: str, place: int) -> str:
    """Return the name of a limit or budget of a user."""
    name = (
        user if len(user) <= _LONGEST else f"{user[:200]}-{sha256(user.encode()).hexdigest()[:8]}"
    )
    return f"user {name}" if not place else f"user {name} {place + 1}"


def _both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    """Return the models that both permit, as far as their names say so."""
    if other == ("*",):
        return one
    here = [name for name in one if any(matches(pattern, name) for pattern in other)]
    here += [name for name in other if any(matches(pattern, name) for pattern in one)]
    return tuple(dict.fromkeys(here)) or (_NOTHING,)


def _key_name(row: Row) -> str:
    """Return the name of a key: its alias, or a part of its digest."""
    alias = _NOT_IN_NAMES.sub("-", text(row, "key_alias")).strip("-._@:+")[:120]
    return alias or f"litellm-{text(row, 'token')[:12]}"


def _unique(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a name for each id; of two with one name, the later ones get a part of their id."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for id, name in sorted(named, key=lambda one: (one[1], one[0])):
        free = name if name not in taken else f"{name[:115]}-{id[:8]}"
        taken.add(free)
        found[id] = free
    return found
