"""Find what many requests share: a match by their shape, or the changes that a backend makes.

- Requests of one shape share a `CachedMatch` if every backend honours their fields whatever the
  values. Rules that are light run on each request.
- Where values decide as well, requests with equal values share the candidates of a full check
  (`steady`): what became of one request's fields becomes of the next one's (`Candidate.changes`).
  That holds as long as nothing has read the messages' texts and nothing has changed them.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.base import Range
from strowger_gateway.adapters.capabilities import fits, offered, outside
from strowger_gateway.adapters.repairs.rule import Repair, applicable
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.capability_match import (
    UNBOUNDED,
    longest_for_default,
)
from strowger_gateway.gateway.routing.planning.policies import BackendStats
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.schemas.content_facts import facts_of
from strowger_gateway.schemas.fields import NEUTRAL, sent_fields, task_of, without
from strowger_gateway.schemas.hints import KNOWN
from strowger_gateway.schemas.requests import ChatRequest, Request

MAX_CHANGED_BYTES: Final = 1024
"""Changes that are longer, as JSON, are not kept."""

_KEPT: Final = frozenset(
    {
        "max_tokens_field",
        "parallel_tool_calls",
        "priority",
        "reasoning_effort",
        "sampling",
        "timeout_s",
        "tool_choice",
    }
)
"""Fields whose new values are short. Others are kept only if they are left out."""

_encode: Final = msgspec.json.Encoder().encode


class CachedMatch(Struct, frozen=True, kw_only=True, eq=False):
    """Backends that all honour requests of one shape whose values are within `bounds`.

    stats: for policies that need nothing but names and weights. optional: the fields that may be
    dropped. dropped: those that none of the backends honours, to be left out of each request.
    """

    candidates: tuple[Candidate, ...]
    bounds: tuple[tuple[str, Range], ...]
    stats: tuple[BackendStats, ...]
    optional: frozenset[str] = frozenset()
    dropped: tuple[str, ...] = ()
    pending: bool = False


JUDGED: Final = NEUTRAL.keys() | KNOWN | {"do_sample"}
"""Fields that some values make neutral, hints, and one that is translated to others."""


def match_of(
    request: Request,
    backends: Sequence[Backend],
    weights: Sequence[float],
    optional: frozenset[str],
    exceeding: frozenset[str] = frozenset(),
) -> CachedMatch | None:
    """`None` unless all of the backends honour requests of this shape, but for the same fields.

    optional: the fields that may be dropped. exceeding: those of them whose values are outside of
    some backend's range.
    """
    all_bounds: list[tuple[str, Range]] = []
    facts = facts_of(request)
    pending = [applicable(one.supports.repairs, facts, one.model) for one in backends]
    if not all(one.light and one.loss != "constraint" for rules in pending for one in rules):
        return None
    dropped = _lacking(request, backends[0], optional, exceeding) if backends else ()
    reduced = without(request, dropped) if dropped else request
    for backend in backends:
        if backend.model == "*" or _lacking(request, backend, optional, exceeding) != dropped:
            return None
        bounds = fits(reduced, backend.supports)
        if bounds is None:
            return None
        all_bounds += [one for one in bounds if one not in all_bounds]
    return CachedMatch(
        candidates=tuple(
            Candidate(
                backend=backend,
                breaker=backend.breaker,
                name=backend.name,
                model=backend.model,
                weight=weight,
                dropped=dropped,
                pending=rules,
                longest_prompt=backend.models.of(backend.name).longest_prompt,
                reasons=backend.models.of(backend.name).reasoning is True,
            )
            for backend, weight, rules in zip(backends, weights, pending, strict=True)
        ),
        bounds=tuple(all_bounds),
        pending=any(pending),
        stats=tuple(
            BackendStats(name=backend.name, weight=weight)
            for backend, weight in zip(backends, weights, strict=True)
        ),
        optional=optional,
        dropped=dropped,
    )


def _lacking(
    request: Request, backend: Backend, optional: frozenset[str], exceeding: frozenset[str]
) -> tuple[str, ...]:
    """The optional fields that were sent and that the backend does not honour.

    Fields whose values decide as well are not among them: `match_backends` judges those.
    """
    if not optional:
        return ()
    ranges = backend.supports.ranges
    fields = offered(backend.supports, task_of(request)) or frozenset()
    bounds = tuple([(field, ranges[field]) for field in exceeding & ranges.keys()])
    missing = {bounds[index][0] for index in outside(request, bounds)}
    missing |= sent_fields(request) & optional - fields
    return tuple(sorted(missing - JUDGED))


class Steady(Struct, frozen=True, kw_only=True, eq=False):
    """What requests with equal values share.

    candidates: without the request of any, but with its changes.
    longest: tokens of a prompt up to which that holds, as `estimated_tokens` estimates them.
    """

    candidates: tuple[Candidate, ...]
    longest: int


def steady(request: Request, candidates: Sequence[Candidate]) -> Steady | None:
    """Return the candidates of this request for others with its values; `None` if they differ.

    candidates: of a check in which no rule has read a text (`reads_texts`).
    """
    if not isinstance(request, ChatRequest):
        return None
    found: list[Candidate] = []
    longest = UNBOUNDED
    for one in candidates:
        changes = _changes(request, one.request or request)
        holds = longest_for_default(one)
        if one.backend.model == "*" or changes is None or holds is None:
            return None
        longest = min(longest, holds)
        found.append(replace(one, request=None, changes=changes or None))
    return Steady(candidates=tuple(found), longest=longest)


def _changes(request: ChatRequest, sent: Request) -> dict[str, object] | None:
    changes: dict[str, object] = {}
    for name in ChatRequest.__struct_fields__:
        value = getattr(sent, name)
        if value is getattr(request, name):
            continue
        if value is not UNSET and name not in _KEPT:
            return None
        changes[name] = value
    if not changes:
        return changes
    size = len(_encode({name: one for name, one in changes.items() if one is not UNSET}))
    return changes if size <= MAX_CHANGED_BYTES else None


def reads_texts(request: Request, backends: Sequence[Backend]) -> bool:
    """Whether texts may decide how a backend gets the request: its user's name is one as well.

    So is the name of its model for a wildcard.
    """
    facts = facts_of(request)
    for one in backends:
        rules = applicable(one.supports.repairs, facts, one.model)
        if one.model == "*" or any_reads_text(rules, facts) or "user" in one.supports.ranges:
            return True
    return False


def any_reads_text(rules: Sequence[Repair], facts: int) -> bool:
    """Whether texts may decide what these rules do to a request with these facts."""
    return any(one.reads_text(facts) for one in rules)
