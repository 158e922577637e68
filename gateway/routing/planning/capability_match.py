"""Check which backends can honour a request, one by one: the slow path behind the plan cache."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from strowger_gateway.adapters.base import Ceilings
from strowger_gateway.adapters.capabilities import (
    Unsupported,
    has_nested,
    offered,
    omitted_content,
    unsupported,
)
from strowger_gateway.adapters.repairs.rule import Aim, Repairs, applicable, repaired
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.request_facts import estimated_tokens
from strowger_gateway.gateway.routing.planning.route import Backend, Route
from strowger_gateway.schemas.content_facts import facts_of
from strowger_gateway.schemas.equivalents import in_known_fields, without_do_sample
from strowger_gateway.schemas.errors import FieldNotAllowed, InvalidRequest
from strowger_gateway.schemas.fields import task_of, without
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    Request,
)
from strowger_gateway.schemas.tasks.task import Unsampled
from strowger_gateway.schemas.unknown_fields import Unknown, at_top, below_top

COMPLETION_TOKENS = 16
"""The default of OpenAI's API for a completion without `max_tokens`.
https://platform.openai.com/docs/api-reference/completions/create"""


UNBOUNDED = 1 << 62

SHORT_ANSWER = 4096
"""Tokens of an answer that is never shortened for a long prompt, whose length is an estimate."""


def match_backends(
    route: Route,
    backends: Sequence[Backend],
    weights: Sequence[float],
    request: Request,
    ruled_out: list[tuple[str, str]],
    *,
    tenant: str = "",
) -> list[Candidate]:
    """The backends that honour every field sent, followed by those that lack optional fields.

    A request that a backend would refuse is repaired by the backend's rules first. If there are no
    backends, the route's `on_unsupported` decides whether fields are dropped. A hint that a backend
    does not support does not change the order. Appends to `ruled_out` each backend that is not
    able, with the reason. tenant: the name of the client's key.
    """
    candidates: list[Candidate] = []
    nearly: list[Candidate] = []
    lacking: list[_Lacking] = []
    asked, facts, fields = request, facts_of(request), NestedFields()
    for backend, weight in zip(backends, weights, strict=True):
        supports = backend.supports
        model = asked.model if backend.model == "*" else backend.model
        done = _repaired_for(translated_for(asked, backend), backend, model, facts, tenant)
        request, defaulted = with_required(done.request, backend, strictly=route.require)
        problems = unsupported(request, supports, fields.of(request))
        hints = () if route.require else tuple([one.field for one in problems if one.hint])
        if hints:
            problems = tuple([one for one in problems if not one.hint])
            request = without(request, hints)
        candidate = _candidate(backend, model, request, done, hints, weight)
        candidate = msgspec.structs.replace(
            candidate,
            dropped=tuple([problem.field for problem in problems]) if problems else (),
            defaulted=defaulted,
        )
        lossy = [_lossy(done)] if done.lossy and route.refuses_lossy_repairs else []
        if not problems and not lossy:
            lost = lost_fields(request, backend, model, fields.of(request))
            if lost and route.require:
                problems = tuple([Unsupported(field=one, reason="is not known") for one in lost])
            else:
                found = candidates if candidate.complete else nearly
                found.append(_with_omitted(candidate, lost))
                continue
        hard = [one for one in problems if route.require or not may_drop(request, one)] + lossy
        if not hard:
            reduced = without(request, candidate.dropped)
            lost = lost_fields(reduced, backend, model, fields.of(reduced))
            nearly.append(_with_omitted(msgspec.structs.replace(candidate, request=reduced), lost))
            continue
        reason = "; ".join(f"{problem.field} {problem.reason}" for problem in hard)
        ruled_out.append((backend.name, reason))
        lacking.append(_Lacking(candidate, request, reason, hard[0], bool(lossy)))
    if candidates or nearly or not lacking:
        return candidates + nearly
    return _match_dropping(route, lacking, fields)


class NestedFields:
    """The unknown nested fields of one request as it is changed for its backends.

    They are searched for again only if what contains them has changed: their places count the
    messages and tools of the request in which they were found.
    """

    __slots__ = ("_found", "_of")

    def __init__(self) -> None:
        self._of: tuple[object, ...] = ()
        self._found: Sequence[Unknown] = ()

    def of(self, request: Request) -> Sequence[Unknown]:
        """Return them. Raises InvalidRequest if the request is nested too deeply."""
        if not isinstance(request, ChatRequest):
            return ()
        now = request.messages, request.tools, request.tool_choice, request.response_format
        if not self._of or any(new is not old for new, old in zip(now, self._of, strict=True)):
            self._found = tuple(below_top(request)) if has_nested(request) else ()
            self._of = now
        return self._found


def _repaired_for(
    request: Request, backend: Backend, model: str, facts: int, tenant: str
) -> Repairs:
    """The request after the backend's rules."""
    supports = backend.supports
    rules = applicable(supports.repairs, facts, model)
    if not rules:
        return Repairs(request=request)
    return repaired(request, rules, Aim(model=model, tenant=tenant, dialect=supports.dialect))


def _candidate(
    backend: Backend,
    model: str,
    request: Request,
    done: Repairs,
    hints: tuple[str, ...],
    weight: float,
) -> Candidate:
    """The backend with the repaired request. hints: the fields that were omitted from it."""
    name = display_name(backend, request)
    wild = backend.model == "*"
    facts = backend.models.of(name)
    return Candidate(
        backend=backend,
        breaker=backend.breakers.of(request.model) if wild else backend.breaker,
        name=name,
        model=model,
        request=request,
        weight=weight,
        omitted=_distinct(done.left_out, hints, omitted_content(request, backend.supports)),
        repaired=done.made,
        loss=done.loss,
        undo=done.undo,
        longest_prompt=facts.longest_prompt,
        reasons=facts.reasoning is True,
    )


def _lossy(done: Repairs) -> Unsupported:
    """The problem of a request that may not be repaired, by the first rule that loses something."""
    name = done.lossy[0]
    paths = [path for one in done.made for path, _, rule in (one.rpartition(":"),) if rule == name]
    return Unsupported(
        field=paths[0] if paths else done.left_out[0],
        reason=f"cannot be enforced by this backend (repair {name}), and the model does not allow "
        "repairs that lose a constraint (require, on_repair)",
    )


def _distinct(*groups: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([name for group in groups for name in group]))


def lost_fields(
    request: Request, backend: Backend, model: str, below: Sequence[Unknown]
) -> tuple[str, ...]:
    """Fields of the request beyond our schema that the backend does not get.

    below: `below_top` of this request.
    """
    carries = backend.supports.carries
    if carries is None or not (below or request.extra):
        return ()
    return carries.lost(request, model, (*at_top(request), *below))


def with_required(
    request: Request, backend: Backend, *, strictly: bool = False
) -> tuple[Request, tuple[str, ...]]:
    """The request with the fields that its backend requires and the client did not send.

    Returns what was added as well, as `max_tokens=8192`. strictly: add nothing.
    """
    ceilings = backend.supports.max_tokens
    if strictly or ceilings is None or isinstance(request, Unsampled):
        return request, ()
    if request.sampling.max_tokens not in (UNSET, None):
        return request, ()
    most = (
        COMPLETION_TOKENS
        if isinstance(request, CompletionRequest)
        else _longest_answer(request, backend, ceilings)
    )
    sampling = msgspec.structs.replace(request.sampling, max_tokens=most)
    return msgspec.structs.replace(request, sampling=sampling), (f"max_tokens={most}",)


def _longest_answer(request: Request, backend: Backend, ceilings: Ceilings) -> int:
    """The model's ceiling, or less if the rest of its context is smaller.

    Vendors refuse a `max_tokens` that exceeds the context together with the prompt, so the prompt
    counts with twice its estimate. ceilings: the dialect's, for a model of which none is known.
    """
    facts = backend.models.of(display_name(backend, request))
    model = request.model if backend.model == "*" else backend.model
    most = ceilings.of(model) if facts.max_output is None else facts.max_output
    if facts.context is None:
        return most
    room = facts.context - 2 * estimated_tokens(request)
    return max(min(most, room), min(most, SHORT_ANSWER))


def longest_for_default(candidate: Candidate) -> int | None:
    """The longest prompt, in estimated tokens, for which the default of `max_tokens` is the same.

    The candidate is as `match_backends` found it. `None` if its default is below the ceiling,
    because the prompt is long.
    """
    backend = candidate.backend
    ceilings = backend.supports.max_tokens
    if not candidate.defaulted or ceilings is None:
        return UNBOUNDED
    facts = backend.models.of(candidate.name)
    most = ceilings.of(candidate.model) if facts.max_output is None else facts.max_output
    if facts.context is None or most <= SHORT_ANSWER:
        return UNBOUNDED
    if candidate.defaulted != (f"max_tokens={most}",):
        return None
    return (facts.context - most) // 2


def _with_omitted(candidate: Candidate, lost: tuple[str, ...]) -> Candidate:
    if not lost:
        return candidate
    return msgspec.structs.replace(candidate, omitted=candidate.omitted + lost)


def display_name(backend: Backend, request: Request) -> str:
    """The backend's name, with the requested model in place of a wildcard."""
    return backend.name[:-1] + request.model if backend.model == "*" else backend.name


def translated_for(request: Request, backend: Backend) -> Request:
    """The request with fields that this backend knows by another name translated to that name."""
    if isinstance(request, Unsampled):
        return request
    supports = backend.supports
    if request.extra and not supports.extra:
        task = task_of(request)
        if not request.extra.keys() <= supports.extra_fields.get(task, frozenset()):
            request = in_known_fields(request, offered(supports, task) or ())
    if request.sampling.do_sample is UNSET:
        return request
    return without_do_sample(request, offered(supports, task_of(request)) or ())


def may_drop(request: Request, problem: Unsupported) -> bool:
    """Whether the request may be sent without the field."""
    return problem.hint or problem.field in request.optional


class _Lacking(NamedTuple):
    """A backend that cannot honour the request.

    first: of what it cannot honour. lossy: it would need a repair that the model does not allow.
    """

    candidate: Candidate
    request: Request
    reason: str
    first: Unsupported
    lossy: bool


def _match_dropping(route: Route, lacking: list[_Lacking], fields: NestedFields) -> list[Candidate]:
    """Drop fields that no backend honours, if `on_unsupported` is `drop`.

    Content is never dropped; a backend that does not support it is ruled out instead. Raises
    InvalidRequest if no backend remains.
    """
    candidate, _, reason, problem, _ = lacking[0]
    message = f"{candidate.backend.name}: {reason}"
    if problem.withheld:
        refusal: InvalidRequest = FieldNotAllowed(message, param=problem.field)
    else:
        refusal = InvalidRequest(message, param=problem.field, code="unsupported")
    found: list[Candidate] = []
    if route.on_unsupported == "drop" and not route.require:
        for candidate, request, _, first, lossy in lacking:
            if lossy:
                continue
            try:
                reduced = without(request, candidate.dropped)
            except InvalidRequest as exc:
                if not first.withheld:  # that it is not allowed is the better reason
                    refusal = exc
                continue
            below = fields.of(reduced)
            lost = lost_fields(reduced, candidate.backend, candidate.model, below)
            found.append(_with_omitted(msgspec.structs.replace(candidate, request=reduced), lost))
    if not found:
        raise refusal
    return found
