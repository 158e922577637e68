"""Remember, per request shape, which backends honour a request in full, and whole plans.

Checking a request field by field against every backend takes far longer than sending it on, and
most requests differ only in their text.

1. Often, the check depends on the request's shape alone: the task, the fields that were sent, and
   the types of their values. Values matter only for fields with a range, and those are checked on
   every hit (`CachedMatch.bounds`).
2. For other shapes the values decide, as for a temperature that a fallback's model refuses. Plans
   of those are kept by shape, client key and values (`values_of`): all but the texts. A later
   request gets the same changes (`Steady`).
"""

from collections.abc import Callable, Hashable, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Final, TypeVar

from msgspec import UNSET, UnsetType, json, msgpack, to_builtins
from msgspec.structs import replace

from strowger_gateway.adapters.capabilities import outside
from strowger_gateway.gateway.routing.planning.candidate import Candidate
from strowger_gateway.gateway.routing.planning.plan import Plan
from strowger_gateway.gateway.routing.planning.request_facts import (
    CHARACTERS_PER_TOKEN,
    estimated_tokens,
)
from strowger_gateway.gateway.routing.planning.route import Backend
from strowger_gateway.gateway.routing.planning.shared_match import (
    JUDGED,
    UNBOUNDED,
    CachedMatch,
    Steady,
    match_of,
    reads_texts,
    steady,
)
from strowger_gateway.schemas.content_facts import (
    ODD_USER,
    OLD_LIMIT,
    VALUES_DECIDE,
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
    TOKENS,
)
from strowger_gateway.schemas.messages import OpaqueTool, text_of
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
    TokenRequest,
    WholeRequest,
)
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.tasks.task import TaskRequest

RequestShape = tuple[object, ...]
PlanKey = tuple[str, str, RequestShape | None]
"""Route, arm and shape."""

RequestValues = tuple[str, str, bytes, bytes]
"""See `values_of`."""

_RuledOut = tuple[tuple[str, str], ...]

Pool = Callable[[], tuple[Sequence[Backend], Sequence[float]]]
"""Returns the backends of a scope, and their weights in the same order."""

MAX_CACHED = 4096
"""Entries of each of the cache's dictionaries. Clients choose the keys, so they are bounded."""

MAX_SAMPLING_BYTES = 256
"""Longer sampling parameters, in MessagePack, are not cached: they rarely repeat."""

_encode = msgpack.Encoder().encode
_encode_fields = json.Encoder().encode

_NO_SAMPLING: Final = Sampling()
_chat = attrgetter(*CHAT)
_completion = attrgetter(*COMPLETION)
_embeddings = attrgetter(*EMBEDDINGS)
_tokens = attrgetter(*TOKENS)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

# A sentinel, because `None` is a cached result: check each backend by itself.
_MISS: Final = CachedMatch(candidates=(), bounds=(), stats=())


class PlanCache:
    """What one `Planner` remembers of the requests that it has planned.

    plans: by route, arm and shape, where nothing but the shape decides. An arm is "" outside of
    experiments.
    """

    __slots__ = (
        "_by_values",
        "_matches",
        "_names",
        "_plain_chats",
        "_steady",
        "_texts_decide",
        "plans",
    )

    def __init__(self) -> None:
        self.plans: dict[PlanKey, Plan] = {}
        # Of plans: the key alone, with `None`, says that the values decide.
        self._by_values: dict[tuple[PlanKey, RequestValues | None], tuple[Plan, Steady] | None] = {}
        self._texts_decide: dict[tuple[Hashable, RequestShape], bool] = {}
        self._steady: dict[
            tuple[Hashable, RequestShape, RequestValues], tuple[Steady, _RuledOut]
        ] = {}
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
            found = match_of(request, *pool(), optional)
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
        if not fields <= match.optional - JUDGED:
            return None
        key = key[0], (*key[1], exceeded)
        found = self._matches.get(key, _MISS)
        if found is _MISS:
            found = match_of(request, *pool(), match.optional, fields)
            self.put(self._matches, key, found)
        return found

    def plan_by_values(self, key: PlanKey, request: Request, tenant: str) -> Plan | None:
        """The plan of an earlier request of this client with equal values, for this one's texts."""
        if (key, None) not in self._by_values:
            return None
        values = values_of(request, tenant)
        found = None if values is None else self._by_values.get((key, values))
        if found is None or not _holds(found[1], request):
            return None
        return replace(found[0], candidates=_with_changes(found[1], request))

    def keep_by_values(self, key: PlanKey, request: Request, tenant: str, plan: Plan) -> None:
        """Keep the plan of this request for those of this client with equal values."""
        values = values_of(request, tenant)
        shared = None if values is None else steady(request, plan.candidates)
        if shared is not None:
            self.put(self._by_values, (key, values), (replace(plan, candidates=()), shared))
            self.put(self._by_values, (key, None), None)

    def texts_decide(
        self,
        scope: tuple[Hashable, RequestShape],
        request: Request,
        backends: Sequence[Backend],
    ) -> bool:
        """Whether texts may decide how requests of this shape reach these backends."""
        found = self._texts_decide.get(scope)
        if found is None:
            found = reads_texts(request, backends)
            self.put(self._texts_decide, scope, found)
        return found

    def checked(
        self,
        scope: tuple[Hashable, RequestShape, RequestValues],
        request: Request,
        ruled_out: list[tuple[str, str]],
    ) -> tuple[Candidate, ...] | None:
        """What a full check of an earlier request with these values has found, for this one.

        Appends to `ruled_out`, as the check does.
        """
        found = self._steady.get(scope)
        if found is None or not _holds(found[0], request):
            return None
        ruled_out += found[1]
        return _with_changes(found[0], request)

    def keep_checked(
        self,
        scope: tuple[Hashable, RequestShape, RequestValues],
        request: Request,
        candidates: Sequence[Candidate],
        ruled_out: Sequence[tuple[str, str]],
    ) -> None:
        """Keep what a full check of this request has found for those with equal values."""
        shared = steady(request, candidates)
        if shared is not None:
            self.put(self._steady, scope, (shared, tuple(ruled_out)))

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
        self, request: CompletionRequest | WholeRequest | TokenRequest
    ) -> RequestShape | None:
        if isinstance(request, TaskRequest):
            sent = [*map(type, request.values)]
            return type(request), request.content, request.optional, *sent
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


def values_of(request: Request, tenant: str) -> RequestValues | None:
    """All that decides apart from the shape and texts: other values, and who sends them.

    `None` for requests whose values rarely repeat, or are long. Tools count with a digest, and the
    user's name not at all: see `reads_texts`. tenant: the name of the client's key.
    """
    if type(request) is not ChatRequest:
        return None
    given = request.sampling
    if given.seed is not UNSET or request.metadata is not UNSET:
        return None
    original = request.original
    bare = replace(request, model="", messages=(), sampling=_NO_SAMPLING, user=UNSET, original=None)
    try:
        sampling, fields = _encode(given), _encode_fields(bare)
    except (OverflowError, UnicodeEncodeError):
        return None
    if len(sampling) > MAX_SAMPLING_BYTES:
        return None
    dialect = "" if original is None else original.dialect
    return tenant, dialect, sampling, blake2b(fields, digest_size=16).digest()


def prompt_characters(request: Request) -> float:
    """The length of the prompt. A token counts as CHARACTERS_PER_TOKEN characters.

    So does the text that a chat template adds to each message.
    """
    if type(request) is not ChatRequest or request.tools is not UNSET:
        return estimated_tokens(request) * CHARACTERS_PER_TOKEN
    size = 0
    for message in request.messages:
        content = message.content
        size += 16 + (len(content) if type(content) is str else len(text_of(message)))
    return size


def _holds(shared: Steady, request: Request) -> bool:
    """Whether the prompt is short enough for what earlier requests have found."""
    if shared.longest == UNBOUNDED:
        return True
    return prompt_characters(request) <= shared.longest * CHARACTERS_PER_TOKEN


def _with_changes(shared: Steady, request: Request) -> tuple[Candidate, ...]:
    """The candidates with the request that each of them gets."""
    return tuple(
        [
            one
            if one.changes is None
            else replace(one, request=replace(request, **one.changes), changes=None)
            for one in shared.candidates
        ]
    )
