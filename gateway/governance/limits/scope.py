"""Which requests a limit or a budget applies to."""

from collections.abc import Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from strowger_gateway.gateway.config.schema.limits import Each, Limit, LimitWho

Place = tuple[str, str, str, str, str, str, str]
"""Where a request counts: the name of its key, the model's own name and the requested one, the team
and the user of the key, the end user as `gateway/governance/end_users` names it, and the caller's
plan; "" for none."""


_ANY_END_USER: Final = "*"
"""In place of an end user, where all of them are meant. No account is named so."""


class Whose(Struct, frozen=True, kw_only=True):
    """A caller, and the account of one of its end users, as `gateway/governance/end_users` names
    it.

    end_user: "" for all of the caller's end users.
    """

    key: str
    team: str = ""
    user: str = ""
    plan: str = ""
    end_user: str = ""


class Scoped(Protocol):
    """Whose requests a rule is about: see `Limit`."""

    @property
    def name(self) -> str: ...

    @property
    def who(self) -> LimitWho: ...

    @property
    def each(self) -> Each | None: ...

    @property
    def models(self) -> tuple[str, ...]: ...


_Rule = TypeVar("_Rule", bound=Scoped)


class RuleIndex(Generic[_Rule]):
    """Rules by what finds them: thousands may be about one key each.

    all: in their order. named: by their names.
    """

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self.all = tuple(rules)
        self.named: Mapping[str, _Rule] = {rule.name: rule for rule in rules}
        self._of_key: dict[str, list[int]] = {}
        self._others: list[int] = []
        for place, rule in enumerate(rules):
            key = rule.who.key
            (self._others if key is None else self._of_key.setdefault(key, [])).append(place)

    def of_key(self, key: str) -> Sequence[_Rule]:
        """Return the rules that may be about a key, in their order."""
        own = self._of_key.get(key)
        places = sorted((*self._others, *own)) if own else self._others
        return [self.all[place] for place in places]


def subject_of(rule: Scoped, key: str, team: str, user: str, end_user: str = "") -> str | None:
    """Whose account of the rule counts: "" for a common one; `None` if it does not apply.

    Keys do not share end users, because each names its own; those of one team or user do.
    """
    who = rule.who
    if not who.any:
        wanted = ((who.key, key), (who.team, team), (who.user, user))
        if not any(one is not None and one == own for one, own in wanted):
            return None
        return (end_user or None) if rule.each == "end_user" else ""
    match rule.each:
        case None:
            return ""
        case "key":
            return key
        case "team":
            return team or None
        case "user":
            return user or None
        case "end_user":
            return (f"{key}/{end_user}" if key else end_user) if end_user else None


def subjects_of(rule: Scoped, whose: Whose) -> tuple[str, bool] | None:
    """The subject of a rule, and whether it is only how the subjects of all end users begin.

    `None` if the rule does not apply.
    """
    end_user = whose.end_user or _ANY_END_USER
    subject = subject_of(rule, whose.key, whose.team, whose.user, end_user)
    if subject is None or plan_of(rule) not in ("", whose.plan):
        return None
    if rule.each != "end_user" or whose.end_user:
        return subject, False
    return subject.removesuffix(_ANY_END_USER), True


def plan_of(rule: Scoped) -> str:
    """The plan that a caller needs for the rule to apply; "" is any. Budgets have none."""
    return rule.plan if isinstance(rule, Limit) else ""


def end_user_of(subject: str) -> str:
    """The end user of a subject of a rule by end user; see subject_of."""
    return subject.rpartition("/")[2]
