"""Remember, per request shape, which backends honour a request in full, and whole plans.

Checking a request field by field against every backend takes far longer than sending it on, and
most requests differ only in their text. Their shape is all that the check depends on: the task,
the fields that were sent, and the types of their values. The values themselves matter only for
fields with a range, and those are checked on every hit (`CachedMatch.bounds`).
"""

from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Final, TypeVar

from msgspec import UNSET, Struct, UnsetType, msgpack, to_builtins
from msgspec.structs import replace

from strowger_gateway.adapters.base import Range
from strowger_gateway.adapters.capabilities import fits, offered, outside
from strowger_gateway.adapters.repairs.rule import applicable
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.policies import BackendStats
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.schemas.content_facts import (
    ODD_USER,
    OLD_LIMIT,
    VALUES_DECIDE,
    facts_of,
    has_odd_user,
    has_old_limit,
    message_facts,
    original_facts,
    tool_facts,
)
from strowger_gateway.schemas.fields import (
    CHAT,
    COMPLETION,
    EMBEDDINGS,
    NEUTRAL,
    TOKENS,
    sent_fields,
    task_of,
    without,
)
from strowger_gateway.schemas.hints import KNOWN
from strowger_gateway.schemas.messages import OpaqueTool
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
    TokenRequest,
)
from strowger_gateway.schemas.sampling import Sampling

RequestShape = tuple[object, ...]

Pool = Callable[[], tuple[Sequence[Backend], Sequence[float]]]
"""Returns the backends of a scope, and their weights in the same order."""

MAX_CACHED = 4096
"""Entries of each of the cache's dictionaries. Clients choose the keys, so they are bounded."""

MAX_SAMPLING_BYTES = 256
"""Longer sampling parameters, in MessagePack, are not cached: they rarely repeat."""

_encode = msgpack.Encoder().encode

_chat = attrgetter(*CHAT)
_completion = attrgetter(*COMPLETION)
_embeddings = attrgetter(*EMBEDDINGS)
_tokens = attrgetter(*TOKENS)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


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


_JUDGED: Final = NEUTRAL.keys() | KNOWN | {"do_sample"}
"""Fields that some values make neutral, hints, and one that is translated to others."""

# A sentinel, because `None` is a cached result: check each backend by itself.
_MISS: Final = CachedMatch(candidates=(), bounds=(), stats=())


class PlanCache:
    """What one `Planner` remembers of the requests that it has planned.

    plans: by route, arm and shape, where nothing but the shape decides. An arm is "" outside of
    experiments.
    """

    __slots__ = ("_matches", "_names", "_plain_chats", "plans")

    def __init__(self) -> None:
        self.plans: dict[tuple[str, str, RequestShape | None], Plan] = {}
        self._matches: dict[tuple[Hashable, RequestShape], CachedMatch | None] = {}
        self._names: dict[bytes, str | None] = {}
        self._plain_chats: dict[bytes, tuple[RequestShape, RequestShape]] = {}

    @staticmethod
    def put(cache: dict[_Key, _Value], key: _Key, value: _Value) -> None:
        """Add an entry; a full dictionary is cleared first, which is cheaper than an LRU."""
        if len(cache) >= MAX_CACHED:
            cache.clear()
        cache[key] = value

    def match(
        self,
        scope: Hashable,
        shape: RequestShape | None,
        request: Request,
        pool: Pool,
        *,
        require: bool,
    ) -> CachedMatch | None:
        """The match for a list of backends; `None` if each has to be checked by itself.

        scope: names the list within the route table. require: optional fields may not be dropped.
        """
        if shape is None:
            return None
        key = scope, shape
        found = self._matches.get(key, _MISS)
        if found is _MISS:
            optional = frozenset(() if require else request.optional)
            found = _match(request, *pool(), optional)
            self.put(self._matches, key, found)
        if found is None or not found.bounds:
            return found
        exceeded = outside(request, found.bounds)
        return found if not exceeded else self._match_within(key, found, exceeded, request, pool)

    def _match_within(
        self,
        key: tuple[Hashable, RequestShape],
        match: CachedMatch,
        exceeded: tuple[int, ...],
        request: Request,
        pool: Pool,
    ) -> CachedMatch | None:
        """The match without the optional fields whose values exceed these bounds of `match`."""
        fields = frozenset([match.bounds[index][0] for index in exceeded])
        if not fields <= match.optional - _JUDGED:
            return None
        key = key[0], (*key[1], exceeded)
        found = self._matches.get(key, _MISS)
        if found is _MISS:
            found = _match(request, *pool(), match.optional, fields)
            self.put(self._matches, key, found)
        return found

    def shape(self, request: Request) -> RequestShape | None:
        """The request's shape; `None` if its values decide as well, so that nothing is cached.

        An absent field is `UNSET` or `None`, so the types of the fields say which were sent.
        """
        if request.extra:
            return None
        # `type(...) is`, not `isinstance`, which takes seven times as long for Structs (ADR 16).
        if type(request) is not ChatRequest:
            shape = self._other_shape(request)  # pyright: ignore[reportArgumentType]  not a chat
            return shape if shape is None or not request.optional else (*shape, request.optional)
        if request.nested:
            return None
        facts = message_facts(request.messages)
        if facts & VALUES_DECIDE:
            return None
        given = request.sampling
        if given.max_tokens is not UNSET and has_old_limit(request):
            facts |= OLD_LIMIT
        if request.original is not None:
            facts |= original_facts(request.original)
        if request.user is not UNSET and has_odd_user(request):
            facts |= ODD_USER
        if given.seed is not UNSET and given.seed is not None:
            given = replace(given, seed=0)  # evaluations have a seed each, and all are alike
        try:
            sampling = _encode(given)
        except (OverflowError, UnicodeEncodeError):
            sampling = b""
        # The fields one by one: that is faster than any expression that lists them.
        if (
            request.tools is UNSET
            and request.tool_choice is UNSET
            and request.parallel_tool_calls is UNSET
            and request.response_format is UNSET
            and request.reasoning_effort is UNSET
            and request.metadata is UNSET
            and request.priority is UNSET
        ):
            shapes = self._plain_chats.get(sampling) or self._plain_shapes(request, sampling)
            shape = shapes[1] if request.user is UNSET else shapes[0]
            if shape is None:
                return None
            if facts:
                shape = (*shape, facts)
            return shape if not request.optional else (*shape, request.optional)
        tools = request.tools
        if not isinstance(tools, UnsetType) and OpaqueTool in map(type, tools):
            return None
        facts |= tool_facts(request)
        names = self._sampling_names(request.sampling, sampling)
        if names is None:
            return None
        return ChatRequest, names, facts, request.optional, *map(type, _chat(request))

    def _plain_shapes(
        self, request: ChatRequest, sampling: bytes
    ) -> tuple[RequestShape | None, RequestShape | None]:
        """The shapes of a chat with nothing but messages: one with a user, and one without."""
        names = self._sampling_names(request.sampling, sampling)
        if names is None:
            return None, None
        shapes = (ChatRequest, names, str), (ChatRequest, names, UnsetType)
        if 0 < len(sampling) <= MAX_SAMPLING_BYTES:
            self.put(self._plain_chats, sampling, shapes)
        return shapes

    def _other_shape(
        self, request: CompletionRequest | EmbeddingsRequest | TokenRequest
    ) -> RequestShape | None:
        if isinstance(request, EmbeddingsRequest):
            ids = tuple in map(type, request.inputs)
            return EmbeddingsRequest, ids, *map(type, _embeddings(request))
        try:
            encoded = _encode(request.sampling)
        except (OverflowError, UnicodeEncodeError):
            encoded = b""
        sampling = self._sampling_names(request.sampling, encoded)
        if sampling is None:
            return None
        if isinstance(request, CompletionRequest):
            ids = tuple in map(type, request.prompts)
            flags = ids, len(request.prompts) > 1, request.template
            return CompletionRequest, *flags, sampling, *map(type, _completion(request))
        return TokenRequest, request.text, sampling, *map(type, _tokens(request))

    def _sampling_names(self, sampling: Sampling, encoded: bytes) -> str | None:
        """The names of the parameters that were sent; `None` if one of them is null.

        encoded: in MessagePack, or b"" if it cannot be encoded. A few encodings make up most
        requests, and encoding takes a sixth of the time that listing the names does.
        """
        if not 0 < len(encoded) <= MAX_SAMPLING_BYTES:
            return _names(sampling)
        names = self._names.get(encoded, "")
        if names == "":
            names = _names(sampling)
            self.put(self._names, encoded, names)
        return names


def _names(sampling: Sampling) -> str | None:
    # The builtins of a Struct contain the fields that were sent, and no others.
    sent: dict[str, object] = to_builtins(sampling, builtin_types=(bytes,))
    return None if None in sent.values() else " ".join(sent) or "-"


def _match(
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
    return tuple(sorted(missing - _JUDGED))
