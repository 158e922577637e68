"""Which requests a limit or a budget applies to."""

from collections.abc import Iterable
from typing import Literal, Protocol

from gateway.config.schema.limits import LimitWho

Place = tuple[str, str, str, str, str]
"""Where a request counts: the name of its key, the model's own name and the requested one, the team
and the user of the key, "" for none."""


class Scoped(Protocol):
    """Whose requests a rule is about: see `Limit`."""

    @property
    def who(self) -> LimitWho: ...

    @property
    def each(self) -> Literal["key", "team", "user"] | None: ...

    @property
    def models(self) -> tuple[str, ...]: ...


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
