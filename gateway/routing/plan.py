"""From a request to the ordered backends that may answer it."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from adapters.base import Supports
from adapters.support import left_out, offered, unsupported
from gateway.config.model import RequestFields
from gateway.config.model import Retry as RetryRule
from gateway.routing.breaker import Breaker
from gateway.routing.policies import Policy
from gateway.routing.retry import RetryBudget
from gateway.upstream.base import Upstream
from schemas.equivalents import in_our_fields, reworded
from schemas.errors import InvalidRequest, ModelNotFound, Unavailable
from schemas.fields import task_of, without
from schemas.requests import CompletionRequest, EmbeddingsRequest, Request
from schemas.sampling import Sampling

NOTHING = RequestFields()
"""No values of the operator's."""

CUT_GRACE_S = 2.0
"""For a backend to end, by itself, an answer whose time is over (`error_behavior: truncate`)."""


class Backend(Struct, frozen=True, kw_only=True, eq=False):
    """One place that can serve a model: PROVIDER/MODEL. `model` "*" hands the asked-for name on.

    budget is shared by all backends of one provider; breaker is this backend's own.
    """

    name: str
    model: str
    upstream: Upstream
    supports: Supports
    breaker: Breaker
    budget: RetryBudget


class Route(Struct, frozen=True, kw_only=True):
    """One entry of `models`, ready to be followed.

    weights:  of `backends`, in the same order.
    defaults: the operator's values where the request is silent; overrides: always.
    """

    name: str
    backends: tuple[Backend, ...]
    weights: tuple[float, ...]
    policy: Policy
    retry: RetryRule = RetryRule()
    deadline_s: float = 600.0
    fallback: tuple[str, ...] = ()
    on_unsupported: Literal["error", "drop"] = "error"
    defaults: RequestFields = NOTHING
    overrides: RequestFields = NOTHING


class Candidate(Struct, frozen=True, kw_only=True, eq=False):
    """A backend with the request it would get.

    name:    the backend's with the model that is asked for, where its own is a wildcard.
    dropped: fields that it cannot honour. left_out: what of the content it does not get to see.
    """

    backend: Backend
    name: str
    model: str
    request: Request
    weight: float
    dropped: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def told(self) -> tuple[str, ...]:
        """What the client is told that this backend did not get."""
        return self.dropped + self.left_out


class Plan(Struct, frozen=True, kw_only=True, eq=False):
    """Who may answer, first choice first, and within which bounds. Times in seconds.

    ruled_out: backends that may not, each with the reason, for logs and `strowger explain`.
    """

    route: str
    candidates: tuple[Candidate, ...]
    retry: RetryRule
    deadline_s: float
    ruled_out: tuple[tuple[str, str], ...] = ()


class RouteTable:
    """The routes by name: exact and alias first, then the longest matching wildcard."""

    def __init__(self, routes: Sequence[Route], aliases: Mapping[str, str]) -> None:
        self.routes = {route.name: route for route in routes}
        self.aliases = dict(aliases)
        wild = [route for route in routes if route.name.endswith("*")]
        self._wild = sorted(wild, key=lambda route: len(route.name), reverse=True)

    def find(self, model: str) -> Route:
        """Raises ModelNotFound, with the nearest names."""
        route = self.routes.get(self.aliases.get(model, model))
        if route is not None:
            return route
        for route in self._wild:
            if model.startswith(route.name[:-1]):
                return route
        near = get_close_matches(model, [*self.routes, *self.aliases], n=3)
        hint = f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
        raise ModelNotFound(f"model: there is no model {model!r} here{hint}", param="model")


def plan(table: RouteTable, route: Route, request: Request, *, draw: float, now: float) -> Plan:
    """The candidates for one request on its route. draw: uniform in [0, 1). now: loop time.

    Raises InvalidRequest naming the field that no backend can honour; Unavailable with
    retry_after when every backend rests, as it asked for, or is being probed.
    """
    ruled_out: list[tuple[str, str]] = []
    able: list[Candidate] = []
    refusal: InvalidRequest | None = None
    for name in (route.name, *route.fallback):
        current = table.routes[name]
        try:
            found = _able(current, request, ruled_out)
        except InvalidRequest as exc:
            refusal = refusal or exc
            continue
        if len(found) > 1:
            order = current.policy([candidate.weight for candidate in found], draw)
            found = [found[index] for index in order]
        able.extend(found)
    if not able:
        raise refusal or Unavailable(f"model {route.name!r} has no backend")
    return Plan(
        route=route.name,
        candidates=_healthy(able, now, ruled_out),
        retry=route.retry,
        deadline_s=_deadline(route, request),
        ruled_out=tuple(ruled_out),
    )


def _able(route: Route, request: Request, ruled_out: list[tuple[str, str]]) -> list[Candidate]:
    """The route's backends that honour every field sent; else all, without what they cannot."""
    if route.defaults is not NOTHING or route.overrides is not NOTHING:
        request = with_values(request, route.defaults, route.overrides)
    candidates: list[Candidate] = []
    nearly: list[Candidate] = []
    lacking: list[tuple[Candidate, str]] = []
    asked = request
    for backend, weight in zip(route.backends, route.weights, strict=True):
        request = _reworded(asked, backend)
        problems = unsupported(request, backend.supports)
        wild = backend.model == "*"
        candidate = Candidate(
            backend=backend,
            name=backend.name[:-1] + request.model if wild else backend.name,
            model=request.model if wild else backend.model,
            request=request,
            weight=weight,
            dropped=tuple([problem.field for problem in problems]) if problems else (),
            left_out=left_out(request, backend.supports),
        )
        if not problems:
            candidates.append(candidate)
            continue
        hard = [problem for problem in problems if problem.field not in request.optional]
        if not hard:
            reduced = without(request, candidate.dropped)
            nearly.append(msgspec.structs.replace(candidate, request=reduced))
            continue
        reason = "; ".join(f"{problem.field} {problem.reason}" for problem in hard)
        ruled_out.append((backend.name, reason))
        lacking.append((candidate, reason))
    if candidates or nearly or not lacking:
        return candidates or nearly
    return _with_less(route, lacking)


def _reworded(request: Request, backend: Backend) -> Request:
    if isinstance(request, EmbeddingsRequest):
        return request
    supports = backend.supports
    if request.extra and not supports.extra:
        task = task_of(request)
        if not request.extra.keys() <= supports.extra_fields.get(task, frozenset()):
            request = in_our_fields(request, offered(supports, task) or ())
    if request.sampling.do_sample is UNSET:
        return request
    return reworded(request, offered(supports, task_of(request)) or ())


def _deadline(route: Route, request: Request) -> float:
    """The request's own, where that is shorter; an answer that a timeout only cuts gets longer."""
    if isinstance(request.timeout_s, UnsetType):
        return route.deadline_s
    cut = isinstance(request, CompletionRequest) and request.error_behavior == "truncate"
    return min(route.deadline_s, request.timeout_s + (CUT_GRACE_S if cut else 0.0))


def _with_less(route: Route, lacking: list[tuple[Candidate, str]]) -> list[Candidate]:
    """What `on_unsupported` says of a request that no backend honours in full.

    Content cannot be left out of a request; a backend that lacks it is left out instead.
    """
    first, reason = lacking[0]
    hard = [field for field in first.dropped if field not in first.request.optional]
    refusal = InvalidRequest(f"{first.backend.name}: {reason}", param=hard[0], code="unsupported")
    found: list[Candidate] = []
    if route.on_unsupported == "drop":
        for candidate, _ in lacking:
            try:
                reduced = without(candidate.request, candidate.dropped)
            except InvalidRequest as exc:
                refusal = exc
                continue
            found.append(msgspec.structs.replace(candidate, request=reduced))
    if not found:
        raise refusal
    return found


def _healthy(
    able: list[Candidate], now: float, ruled_out: list[tuple[str, str]]
) -> tuple[Candidate, ...]:
    healthy = tuple([one for one in able if one.backend.breaker.allows(now)])
    if len(healthy) == len(able):
        return healthy
    for candidate in able:
        breaker = candidate.backend.breaker
        if not breaker.allows(now):
            why = (
                "resting, as it asked for"
                if breaker.resting(now)
                else f"breaker {breaker.state(now)}"
            )
            ruled_out.append((candidate.name, why))
    if healthy:
        return healthy
    idle = [
        candidate
        for candidate in able
        if not candidate.backend.breaker.resting(now) and not candidate.backend.breaker.probing
    ]
    if idle:
        return (min(idle, key=lambda candidate: candidate.backend.breaker.last_failure),)
    wait = min(candidate.backend.breaker.available_in(now) for candidate in able)
    names = ", ".join(f"{name}: {why}" for name, why in ruled_out)
    raise Unavailable(f"no backend can answer now ({names})", retry_after=max(wait, 1.0))


def with_values(request: Request, defaults: RequestFields, overrides: RequestFields) -> Request:
    """The request with the operator's values: defaults where it is silent, overrides anyway.

    A field that the request's task does not have is left out.
    """
    own = {
        **{name: value for name, value in _given(defaults) if _silent(request, name)},
        **{name: value for name, value in _given(overrides) if hasattr(request, name)},
    }
    if not isinstance(request, EmbeddingsRequest):
        sampling = request.sampling
        sampled = {
            **{n: value for n, value in _given(defaults.sampling) if _silent(sampling, n)},
            **dict(_given(overrides.sampling)),
        }
        own["sampling"] = msgspec.structs.replace(sampling, **sampled)
    return msgspec.structs.replace(request, **own)


def _given(values: Struct) -> Iterator[tuple[str, object]]:
    for name in values.__struct_fields__:
        value: object = getattr(values, name)
        if value is not UNSET and not isinstance(value, Sampling):
            yield name, value


def _silent(request: Struct, name: str) -> bool:
    return getattr(request, name, False) in (UNSET, None)
