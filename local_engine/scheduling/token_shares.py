"""Divide a step's prompt tokens between keys, so that one key's long prompts do not delay others'.

Max-min fair: each team gets an equal part or what it needs, whichever is less, and so do the keys
of a team. The keys whose prompts have the best priority come first, up to seven eighths.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from strowger_gateway.local_engine.scheduling.sequence import Sequence
from strowger_gateway.schemas.holdings import RESERVED, Holder

T = TypeVar("T")


class Demand(Struct, frozen=True, kw_only=True):
    """The prompt tokens that a key could compute in a step. priority: the best of its prompts."""

    holder: Holder
    tokens: int
    priority: int


def split_tokens(budget: int, demands: Iterable[Demand]) -> dict[str, int]:
    """Return the tokens of each key: together `budget`, or what all need if that is less."""
    demands = tuple(demands)
    best = min((one.priority for one in demands), default=0)
    urgent = [one for one in demands if one.priority == best]
    others = [one for one in demands if one.priority != best]
    kept = budget // RESERVED if others else 0
    quotas = _by_team(budget - kept, urgent)
    quotas.update(_by_team(budget - sum(quotas.values()), others))
    return quotas


def by_turns(sequences: Iterable[Sequence]) -> list[Sequence]:
    """Order sequences so that teams, and their keys, take turns; each key keeps its order."""
    numbered = _numbered((one.holder.key, one) for one in sequences)
    keys_in_turn = [one for _, one in sorted(numbered, key=lambda found: found[0])]
    numbered = _numbered((one.holder.group, one) for one in keys_in_turn)
    return [one for _, one in sorted(numbered, key=lambda found: found[0])]


def _numbered(owned: Iterable[tuple[object, Sequence]]) -> list[tuple[int, Sequence]]:
    counts: dict[object, int] = {}
    numbered: list[tuple[int, Sequence]] = []
    for owner, one in owned:
        counts[owner] = count = counts.get(owner, 0) + 1
        numbered.append((count, one))
    return numbered


def _by_team(budget: int, demands: list[Demand]) -> dict[str, int]:
    teams: dict[tuple[str, str], dict[str, int]] = {}
    for one in demands:
        teams.setdefault(one.holder.group, {})[one.holder.key] = one.tokens
    parts = _max_min(budget, {team: sum(keys.values()) for team, keys in teams.items()})
    quotas: dict[str, int] = {}
    for team, keys in teams.items():
        quotas.update(_max_min(parts[team], keys))
    return quotas


def _max_min(budget: int, wants: Mapping[T, int]) -> dict[T, int]:
    """Return equal parts, none larger than wanted; the rest goes to the others."""
    parts: dict[T, int] = {}
    for place, owner in enumerate(sorted(wants, key=lambda owner: wants[owner])):
        equal = -(-budget // (len(wants) - place))
        parts[owner] = min(wants[owner], equal)
        budget -= parts[owner]
    return parts
