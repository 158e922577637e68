"""Which requests a limit or a budget applies to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, Literal, Protocol, TypeVar

from gateway.config.schema.limits import LimitWho

Place = tuple[str, str, str, str, str]
"""Where a request counts: the name of its key, the model's own name and the requested one, the team
and the user of the key, "" for none."""


class Scoped(Protocol):
    """Whose requests a rule is about: see `Limit`."""

    @property
    def name(self) -> str: ...

    @property
    def who(self) -> LimitWho: ...

    @property
    def each(self) -> Literal["key", "team", "user"] | None: ...

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


def subject_of(rule: Scoped, key: str, team: str, user: str) -> str | None:
    """Whose account of the rule counts: "" for a common one; `None` if it does not apply."""
    who = rule.who
    if not who.any:
        wanted = ((who.key, key), (who.team, team), (who.user, user))
        return "" if any(one is not None and one == own for one, own in wanted) else None
    match rule.each:
        case None:
            return ""
        case "key":
            return key
        case "team":
            return team or None
        case "user":
            return user or None


def covers(patterns: Iterable[str], *names: str) -> bool:
    """Whether a list of models, aliases and wildcards has one of the names."""
    return any(
        pattern in names
        or (pattern.endswith("*") and any(name.startswith(pattern[:-1]) for name in names))
        for pattern in patterns
    )
