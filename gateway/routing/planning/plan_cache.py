"""Who honours requests of a kind in full: looked at closely once, and kept by the kind's shape."""

from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Final, TypeVar

from msgspec import UNSET, Struct, UnsetType, msgpack, to_builtins

from adapters.base import Range
from adapters.capabilities import fits, within
from gateway.routing.planning.candidate import Candidate
from gateway.routing.planning.policies import BackendStats
from gateway.routing.planning.route import Backend
from schemas.fields import CHAT, COMPLETION, EMBEDDINGS, TOKENS
from schemas.messages import OpaqueTool
from schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
    TokenRequest,
)
from schemas.sampling import Sampling

RequestShape = tuple[object, ...]

MAX_CACHED = 4096
"""Kinds of requests."""

MAX_SAMPLING_BYTES = 256
"""Bytes of a sampling that is not remembered: it is hardly said twice."""

_encode = msgpack.Encoder().encode
_names_of: dict[bytes, str | None] = {}
_plain_chats: dict[bytes, tuple[RequestShape, RequestShape]] = {}
"""Of chats with nothing but messages, by their sampling: of those that name a user, and others."""

_chat = attrgetter(*CHAT)
_completion = attrgetter(*COMPLETION)
_embeddings = attrgetter(*EMBEDDINGS)
_tokens = attrgetter(*TOKENS)


def request_shape(request: Request) -> RequestShape | None:
    """What decides, values apart, who honours a request; `None` where only a closer look tells.

    The types of its own fields tell which of them were sent: an absent one is `UNSET` or `None`.
    A chat's are asked for one by one: that is faster than anything that lists them.
    """
    if request.extra:
        return None
    if type(request) is not ChatRequest:
        return _other_shape(request)  # pyright: ignore[reportArgumentType]  it is not a chat
    if request.nested:
        return None
    for message in request.messages:
        if type(message.content) is tuple or message.thoughts:
            return None
        if message.reasoning is not UNSET or message.signature is not UNSET:
            return None
    try:
        said = _encode(request.sampling)
    except (OverflowError, UnicodeEncodeError):
        said = b""
    if (
        request.tools is UNSET
        and request.tool_choice is UNSET
        and request.parallel_tool_calls is UNSET
        and request.response_format is UNSET
        and request.reasoning_effort is UNSET
        and request.metadata is UNSET
        and request.priority is UNSET
    ):
        shapes = _plain_chats.get(said) or _plain_shapes(request, said)
        return shapes[1] if request.user is UNSET else shapes[0]
    tools = request.tools
    if not isinstance(tools, UnsetType) and OpaqueTool in map(type, tools):
        return None
    names = _sampling_names(request.sampling, said)
    return None if names is None else (ChatRequest, names, *map(type, _chat(request)))


def _plain_shapes(
    request: ChatRequest, said: bytes
) -> tuple[RequestShape | None, RequestShape | None]:
    names = _sampling_names(request.sampling, said)
    if names is None:
        return None, None
    shapes = (ChatRequest, names, str), (ChatRequest, names, UnsetType)
    if 0 < len(said) <= MAX_SAMPLING_BYTES:
        cache_put(_plain_chats, said, shapes)
    return shapes


def _other_shape(
    request: CompletionRequest | EmbeddingsRequest | TokenRequest,
) -> RequestShape | None:
    if isinstance(request, EmbeddingsRequest):
        ids = tuple in map(type, request.inputs)
        return EmbeddingsRequest, ids, *map(type, _embeddings(request))
    try:
        said = _encode(request.sampling)
    except (OverflowError, UnicodeEncodeError):
        said = b""
    sampling = _sampling_names(request.sampling, said)
    if sampling is None:
        return None
    if isinstance(request, CompletionRequest):
        ids = tuple in map(type, request.prompts)
        flags = ids, len(request.prompts) > 1, request.template
        return CompletionRequest, *flags, sampling, *map(type, _completion(request))
    return TokenRequest, request.text, sampling, *map(type, _tokens(request))


def _sampling_names(sampling: Sampling, said: bytes) -> str | None:
    """The names of the fields that were sent; `None` where one of them is null.

    said: all of it, or b"" where that cannot be said in MessagePack. Few ways to say them make up
    most requests: they are known by their bytes, which are made in a sixth of the time in which
    the names are.
    """
    if not 0 < len(said) <= MAX_SAMPLING_BYTES:
        return _names(sampling)
    names = _names_of.get(said, "")
    if names == "":
        names = _names(sampling)
        cache_put(_names_of, said, names)
    return names


def _names(sampling: Sampling) -> str | None:
    # What was sent, and nothing else, is among its builtins.
    sent: dict[str, object] = to_builtins(sampling, builtin_types=(bytes,))
    return None if None in sent.values() else " ".join(sent) or "-"


class CachedMatch(Struct, frozen=True, kw_only=True, eq=False):
    """Backends of which each honours such requests, if their values are within `bounds`.

    standings: what a policy may know that asks for nothing but weights.
    """

    candidates: tuple[Candidate, ...]
    bounds: tuple[tuple[str, Range], ...]
    stats: tuple[BackendStats, ...]


_Key = TypeVar("_Key")
_Known = TypeVar("_Known")


def cache_put(kept: dict[_Key, _Known], key: _Key, known: _Known) -> None:
    """What clients can make long begins anew when it is."""
    if len(kept) >= MAX_CACHED:
        kept.clear()
    kept[key] = known


Pool = Callable[[], tuple[Sequence[Backend], Sequence[float]]]
"""Lists a spot's backends, and their weights."""


def cached_match(
    kept: dict[tuple[object, RequestShape], CachedMatch | None],
    spot: Hashable,
    shape: RequestShape | None,
    request: Request,
    pool: Pool,
) -> CachedMatch | None:
    """`None` where a closer look is needed.

    kept: what is known of one generation's routes, filled here. spot: a list of backends within
    a route.
    """
    if shape is None:
        return None
    key = spot, shape
    fit = kept.get(key, _UNKNOWN)
    if fit is _UNKNOWN:
        fit = _match(request, *pool())
        cache_put(kept, key, fit)
    if fit is not None and fit.bounds and not within(request, fit.bounds):
        return None
    return fit


def _match(
    request: Request, backends: Sequence[Backend], weights: Sequence[float]
) -> CachedMatch | None:
    """`None` unless all of the backends honour such requests."""
    all_bounds: list[tuple[str, Range]] = []
    for backend in backends:
        bounds = fits(request, backend.supports)
        if bounds is None or backend.model == "*":
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
            )
            for backend, weight in zip(backends, weights, strict=True)
        ),
        bounds=tuple(all_bounds),
        stats=tuple(
            BackendStats(name=backend.name, weight=weight)
            for backend, weight in zip(backends, weights, strict=True)
        ),
    )


_UNKNOWN: Final = CachedMatch(candidates=(), bounds=(), stats=())
