"""Which backends can honour a request, looked at one by one, and what those get that cannot."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from adapters.support import Unsupported, left_out, offered, unsupported
from gateway.routing.candidate import Candidate
from gateway.routing.route import NOTHING, Backend, Route
from gateway.routing.values import with_values
from schemas.equivalents import in_our_fields, reworded
from schemas.errors import InvalidRequest
from schemas.fields import task_of, without
from schemas.requests import EmbeddingsRequest, Request


def able(
    route: Route,
    backends: Sequence[Backend],
    weights: Sequence[float],
    request: Request,
    ruled_out: list[tuple[str, str]],
) -> list[Candidate]:
    """Those backends that honour every field sent, then those that lack what is optional.

    Where there are none, all, as far as the route lets them go without what they cannot.
    """
    candidates: list[Candidate] = []
    nearly: list[Candidate] = []
    lacking: list[_Lacking] = []
    asked = request
    for backend, weight in zip(backends, weights, strict=True):
        request = reworded_for(asked, backend)
        problems = unsupported(request, backend.supports)
        wild = backend.model == "*"
        candidate = Candidate(
            backend=backend,
            breaker=backend.breakers.of(request.model) if wild else backend.breaker,
            name=named(backend, request),
            model=request.model if wild else backend.model,
            request=request,
            weight=weight,
            dropped=tuple([problem.field for problem in problems]) if problems else (),
            left_out=left_out(request, backend.supports),
        )
        if not problems:
            candidates.append(candidate)
            continue
        hard = [one for one in problems if route.require or not goes_without(request, one)]
        if not hard:
            reduced = without(request, candidate.dropped)
            nearly.append(msgspec.structs.replace(candidate, request=reduced))
            continue
        reason = "; ".join(f"{problem.field} {problem.reason}" for problem in hard)
        ruled_out.append((backend.name, reason))
        lacking.append(_Lacking(candidate, request, reason, hard[0].field))
    if candidates or nearly or not lacking:
        return candidates + nearly
    return _with_less(route, lacking)


def named(backend: Backend, request: Request) -> str:
    """The backend's name with the model that is asked for, where its own is a wildcard."""
    return backend.name[:-1] + request.model if backend.model == "*" else backend.name


def valued(route: Route, request: Request) -> Request:
    """The request with the operator's values for the model."""
    if route.defaults is NOTHING and route.overrides is NOTHING:
        return request
    return with_values(request, route.defaults, route.overrides)


def reworded_for(request: Request, backend: Backend) -> Request:
    """The request with those of its fields said otherwise that the backend knows otherwise."""
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


def goes_without(request: Request, problem: Unsupported) -> bool:
    """The request may be sent without the field."""
    return problem.optional or problem.field in request.optional


class _Lacking(NamedTuple):
    """One that cannot honour the request, and why. field: the first that it refuses for."""

    candidate: Candidate
    request: Request
    reason: str
    field: str


def _with_less(route: Route, lacking: list[_Lacking]) -> list[Candidate]:
    """What `on_unsupported` says of a request that no backend honours in full.

    Content cannot be left out of a request; a backend that lacks it is left out instead.
    """
    first, _, reason, field = lacking[0]
    refusal = InvalidRequest(f"{first.backend.name}: {reason}", param=field, code="unsupported")
    found: list[Candidate] = []
    if route.on_unsupported == "drop" and not route.require:
        for candidate, request, _, _ in lacking:
            try:
                reduced = without(request, candidate.dropped)
            except InvalidRequest as exc:
                refusal = exc
                continue
            found.append(msgspec.structs.replace(candidate, request=reduced))
    if not found:
        raise refusal
    return found
