"""Who honours requests of a kind in full: looked at closely once, and kept by the kind's shape."""

from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter

from msgspec import UNSET, Struct, UnsetType

from adapters.base import Range
from adapters.support import fits, within
from gateway.routing.candidate import Candidate
from gateway.routing.policies import Standing
from gateway.routing.route import Backend
from schemas.fields import CHAT, COMPLETION, EMBEDDINGS, SAMPLING, TOKENS
from schemas.messages import Message, OpaqueTool
from schemas.requests import ChatRequest, CompletionRequest, EmbeddingsRequest, Request

Shape = tuple[object, ...]

KEPT = 4096
"""Kinds of requests; clients can send more, and then the book begins anew."""

_sampling = attrgetter(*SAMPLING)
_chat = attrgetter(*CHAT)
_completion = attrgetter(*COMPLETION)
_embeddings = attrgetter(*EMBEDDINGS)
_tokens = attrgetter(*TOKENS)


def shape_of(request: Request) -> Shape | None:
    """What decides, values apart, who honours a request; `None` where only a closer look tells.

    The types of all its fields tell which of them were sent: an absent one is `UNSET` or `None`.
    """
    if request.extra:
        return None
    if isinstance(request, EmbeddingsRequest):
        ids = tuple in map(type, request.inputs)
        return EmbeddingsRequest, ids, *map(type, _embeddings(request))
    if isinstance(request, ChatRequest):
        if not all(map(_plain, request.messages)) or _has_opaque(request):
            return None
        flags, own = (), _chat(request)
    elif isinstance(request, CompletionRequest):
        ids = tuple in map(type, request.prompts)
        flags, own = (ids, len(request.prompts) > 1, request.template), _completion(request)
    else:
        flags, own = (request.text,), _tokens(request)
    return type(request), *flags, *map(type, own), *map(type, _sampling(request.sampling))


def _plain(message: Message) -> bool:
    """Text, and no thoughts that were handed back."""
    return (
        type(message.content) is not tuple
        and not message.thoughts
        and message.reasoning is UNSET
        and message.signature is UNSET
    )


def _has_opaque(request: ChatRequest) -> bool:
    tools = request.tools
    return not isinstance(tools, UnsetType) and OpaqueTool in map(type, tools)


class Fit(Struct, frozen=True, kw_only=True, eq=False):
    """Backends of which each honours such requests, if their values are within `bounds`.

    standings: what a policy may know that asks for nothing but weights.
    """

    candidates: tuple[Candidate, ...]
    bounds: tuple[tuple[str, Range], ...]
    standings: tuple[Standing, ...]

    def takes(self, request: Request) -> bool:
        return not self.bounds or within(request, self.bounds)


def fit_of(
    kept: dict[tuple[object, Shape], Fit | None],
    spot: Hashable,
    shape: Shape | None,
    request: Request,
    pool: Callable[[], tuple[Sequence[Backend], Sequence[float]]],
) -> Fit | None:
    """`None` where a closer look is needed.

    kept: what is known of one generation's routes, filled here. spot: a list of backends within
    a route. pool: these backends and their weights.
    """
    if shape is None:
        return None
    key = spot, shape
    try:
        fit = kept[key]
    except KeyError:
        if len(kept) >= KEPT:
            kept.clear()
        fit = kept[key] = _fit(request, *pool())
    return fit if fit is None or fit.takes(request) else None


def _fit(request: Request, backends: Sequence[Backend], weights: Sequence[float]) -> Fit | None:
    """`None` unless all of the backends honour such requests."""
    if not backends:
        return None
    all_bounds: list[tuple[str, Range]] = []
    for backend in backends:
        bounds = fits(request, backend.supports)
        if bounds is None or backend.model == "*":
            return None
        all_bounds += [one for one in bounds if one not in all_bounds]
    return Fit(
        candidates=tuple(
            Candidate(backend=backend, name=backend.name, model=backend.model, weight=weight)
            for backend, weight in zip(backends, weights, strict=True)
        ),
        bounds=tuple(all_bounds),
        standings=tuple(
            Standing(name=backend.name, weight=weight)
            for backend, weight in zip(backends, weights, strict=True)
        ),
    )
