"""Parse bodies of the Responses API, or raise an InvalidRequest that names the field.

https://platform.openai.com/docs/api-reference/responses/create. Nulls count as absent, and an
absent field stays absent. What the answer repeats is kept as the client wrote it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Final

from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from strowger_gateway.gateway.surfaces.decoding import BodyReader, is_null, is_object, model_name
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.openai.stream_options import read_stream_options
from strowger_gateway.gateway.surfaces.responses.compaction import staying, threshold_in
from strowger_gateway.gateway.surfaces.responses.contents import DIALECT
from strowger_gateway.gateway.surfaces.responses.conversation import (
    NOT_STORED,
    ResponsesConversation,
)
from strowger_gateway.gateway.surfaces.responses.item_references import (
    all_items,
    joined_input,
    with_stored,
    without_carried,
    without_trigger,
)
from strowger_gateway.gateway.surfaces.responses.tools import (
    NO_TOOLS,
    read_effort,
    read_text,
    read_tools,
)
from strowger_gateway.gateway.surfaces.responses.wire import ALLOWED, ResponsesWire
from strowger_gateway.gateway.surfaces.stored_items import (
    NO_EARLIER_ITEMS,
    EarlierItems,
    EarlierItemsNeeded,
)
from strowger_gateway.schemas.errors import ConversationNotFound, InvalidRequest, PromptNotFound
from strowger_gateway.schemas.messages import ResponseFormat
from strowger_gateway.schemas.requests import ChatRequest, Compaction, Original, Storage
from strowger_gateway.schemas.sampling import Sampling

ENCRYPTED: Final = "reasoning.encrypted_content"
LOGPROBS: Final = "message.output_text.logprobs"
"""What of `include` every backend's answer can have."""

OWN: Final = frozenset(
    {
        "access_programs",
        "background_options",
        "client_metadata",
        "context_management",
        "image",
        "include",
        "max_tool_calls",
        "moderation",
        "store",
        "truncation",
    }
)
"""Fields that OpenAI's chat completions do not have, with all members of `reasoning` and `text`.
Other unknown ones are sent to servers of its dialect."""

OPTIONAL: Final = ("store", "truncation", "include", "client_metadata", "stream")
"""Served without: this gateway stores nothing, a prompt that is too long is an error, only tools of
OpenAI's have something to include, the model does not read what codex says of itself, and items to
go on with are never streamed."""

_SHARED: Final = (
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
)
"""Fields that chat completions have as well."""

_REPEATED: Final = ("instructions", "tool_choice", "text", "reasoning", "metadata")

_SETTINGS: Final = (
    *("tools", "tool_choice", "parallel_tool_calls", "text", "reasoning"),
    *("max_tool_calls", "top_logprobs", "stream_options", "include", "truncation", "metadata"),
    *_SHARED,
)
"""Fields that a plain request does not have."""

_STORED: Final = ("previous_response_id", "conversation", "prompt", "background")

_ABSENT: Final = ResponsesWire()
_settings: Final[Callable[[ResponsesWire], tuple[object, ...]]] = attrgetter(*_SETTINGS)
_NO_SETTINGS: Final = _settings(_ABSENT)
_stored: Final[Callable[[ResponsesWire], tuple[object, ...]]] = attrgetter(*_STORED)
_NOTHING_STORED: Final = _stored(_ABSENT)
"""What requests without these fields have: one comparison takes less time than a check of each."""

READER: Final = BodyReader(ResponsesWire, ALLOWED)


def parse_response(
    body: bytes,
    *,
    model: str = "",
    stores: bool = False,
    refers: bool = False,
    prompts: bool = False,
    window: bool = False,
    counts: bool = False,
) -> ChatRequest:
    """`POST /v1/responses`. model: the name to use if the body names none.

    stores: answers are stored unless the client says otherwise, and stored ones can be continued.
    refers: the client is one that returns ids of items instead of the items.
    prompts: see `Inbound`; the reference to one is in `extra`.
    window: `POST /v1/responses/compact`, which returns the items to go on with.
    counts: `POST /v1/responses/input_tokens`, which counts instructions and tools alone as well.
    Raises InvalidRequest; EarlierItemsNeeded if the request continues a stored one.
    """
    wire, extra = READER.read(body)
    if _stored(wire) != _NOTHING_STORED:
        _check_stored(wire, stores=stores, prompts=prompts)
    if prompts:
        wire = _prompted(wire, extra)
    previous = wire.previous_response_id
    if window:
        wire, stores, refers = _for_window(wire, extra), False, False
    elif counts and not _is_given(wire.input) and (wire.instructions is not UNSET or previous):
        wire = replace(wire, input=Raw(b"[]"))
    conversation = ResponsesConversation(
        wire.instructions, wire.input, empty=prompts or counts or previous is not None
    )
    if previous is None and not conversation.missing:
        storage = _storage(wire) if stores else None
        return _request(wire, extra, model, conversation, storage, refers=refers, window=window)
    raise EarlierItemsNeeded(
        previous or "",
        conversation.missing,
        len(body),
        partial(_continued, wire, extra, model, stores, refers, window),
    )


def _for_window(wire: ResponsesWire, extra: dict[str, Raw]) -> ResponsesWire:
    """Return the request with what decides about the items to go on with.

    codex sends its tools and how its model answers as well; a summary needs none of them.
    """
    if wire.stream:
        extra["stream"] = Raw(b"true")
    given = wire.input
    if wire.previous_response_id is not None and not _is_given(given):
        given = Raw(b"[]")
    return ResponsesWire(
        model=wire.model,
        input=given,
        instructions=wire.instructions,
        service_tier=wire.service_tier,
        prompt_cache_key=wire.prompt_cache_key,
        prompt_cache_retention=wire.prompt_cache_retention,
        safety_identifier=wire.safety_identifier,
        user=wire.user,
        previous_response_id=wire.previous_response_id,
    )


def _prompted(wire: ResponsesWire, extra: dict[str, Raw]) -> ResponsesWire:
    """Return the request with an input, which may be empty, and put its prompt into `extra`."""
    if isinstance(wire.prompt, Raw) and not is_null(wire.prompt):
        extra["prompt"] = wire.prompt
    return wire if _is_given(wire.input) else replace(wire, input=Raw(b"[]"))


def _continued(
    wire: ResponsesWire,
    extra: dict[str, Raw],
    model: str,
    stores: bool,
    refers: bool,
    window: bool,
    earlier: EarlierItems,
) -> ChatRequest:
    """Return the request with the stored items that it needs. Raises InvalidRequest."""
    conversation = ResponsesConversation(wire.instructions, wire.input, earlier, empty=True)
    storage = _storage(wire, earlier) if stores else None
    refers = refers or (bool(earlier.found) and not window)
    return _request(
        wire, dict(extra), model, conversation, storage, earlier, refers=refers, window=window
    )


def _storage(wire: ResponsesWire, earlier: EarlierItems | None = None) -> Storage:
    given = wire.input
    assert isinstance(given, Raw)
    return Storage(
        store=wire.store is not False,
        previous=wire.previous_response_id or "",
        root="" if earlier is None else earlier.root,
        input=without_trigger(given if earlier is None else with_stored(given, earlier.found)),
    )


def _request(
    wire: ResponsesWire,
    extra: dict[str, Raw],
    model: str,
    conversation: ResponsesConversation,
    storage: Storage | None,
    earlier: EarlierItems = NO_EARLIER_ITEMS,
    *,
    refers: bool,
    window: bool = False,
) -> ChatRequest:
    form: ResponseFormat | UnsetType = UNSET
    effort: str | UnsetType = UNSET
    tools, logprobs, optional, kept = NO_TOOLS, False, OPTIONAL, dict[str, Raw]()
    if _settings(wire) != _NO_SETTINGS:
        tools = read_tools(wire.tools, wire.tool_choice)
        form = read_text(wire.text, extra)
        effort = read_effort(wire.reasoning, extra)
        kept = _kept(wire, extra)
        logprobs = _read_include(wire, extra)
        if wire.stream_options is not UNSET:
            optional += read_stream_options(wire.stream_options, extra)[2]
    elif wire.instructions is not UNSET or extra:
        kept = _kept_alone(wire, extra)
    if wire.store and storage is None:
        extra["store"] = Raw(b"true")
    calls = wire.parallel_tool_calls
    # By position, in the order of the fields: see
    # `strowger_gateway.gateway.surfaces.openai.parse.parse_chat`.
    request = ChatRequest(
        model_name(wire.model, model),
        tuple(conversation.messages),
        _sampling(wire, logprobs=logprobs),
        tools.tools,
        tools.choice,
        UNSET if calls is None or tools.tools is UNSET else calls,
        form,
        effort,
        wire.stream or False,
        user=UNSET if wire.user is None else wire.user,
        extra=extra,
        nested=conversation.marked or tools.marked,
        optional=optional,
    )
    given = _as_sent(wire, conversation, earlier)
    if given is not None:
        kept["input"] = given
    unsent = UNSET if given is not None or earlier.items else wire.input
    own = OWN.union([name for name in extra if "." in name]) if extra else OWN
    original = Original(
        dialect=DIALECT,
        fields=kept,
        read=request,
        own=own,
        storage=storage,
        refers=storage is None and wire.store is not False and (refers or bool(wire.store)),
        unsent=unsent,
        compaction=_compaction(wire, extra, conversation, earlier, window=window),
    )
    return replace(request, original=original)


def _compaction(
    wire: ResponsesWire,
    extra: Mapping[str, Raw],
    conversation: ResponsesConversation,
    earlier: EarlierItems,
    *,
    window: bool,
) -> Compaction | None:
    """Return what the client wants of a long conversation. Raises InvalidRequest."""
    if not (window or conversation.triggered):
        return threshold_in(extra)
    if not conversation.said:
        raise InvalidRequest("input: there is nothing to compact", param="input")
    if not window:
        return Compaction(now=True)
    assert isinstance(wire.input, Raw)
    items = staying(all_items(wire.input, earlier), earlier.compacted)
    return Compaction(now=True, kept=Raw(encode(items)))


def _as_sent(
    wire: ResponsesWire, conversation: ResponsesConversation, earlier: EarlierItems
) -> Raw | None:
    """Return the client's items with those that it refers to, if a server can read them so."""
    if not conversation.as_sent or not isinstance(wire.input, Raw):
        return None
    if earlier is not NO_EARLIER_ITEMS:
        return joined_input(wire.input, earlier)
    return without_carried(wire.input) if conversation.carried else wire.input


def _sampling(wire: ResponsesWire, *, logprobs: bool) -> Sampling:
    return Sampling(
        temperature=UNSET if wire.temperature is None else wire.temperature,
        top_p=UNSET if wire.top_p is None else wire.top_p,
        max_tokens=UNSET if wire.max_output_tokens is None else wire.max_output_tokens,
        presence_penalty=UNSET if wire.presence_penalty is None else wire.presence_penalty,
        frequency_penalty=UNSET if wire.frequency_penalty is None else wire.frequency_penalty,
        logprobs=True if logprobs else UNSET,
        top_logprobs=wire.top_logprobs if logprobs and wire.top_logprobs else UNSET,
    )


def _check_stored(wire: ResponsesWire, *, stores: bool, prompts: bool) -> None:
    """Raise InvalidRequest for what only works with stored responses, or with OpenAI's objects."""
    if wire.previous_response_id is not None and not stores:
        field = "previous_response_id"
        raise InvalidRequest(f"{field}: {NOT_STORED}", param=field)
    if _is_given(wire.conversation):
        field = "conversation"
        if stores:
            raise ConversationNotFound(
                f"{field}: this gateway has no conversation objects; use previous_response_id",
                param=field,
            )
        raise InvalidRequest(f"{field}: {NOT_STORED}", param=field)
    if _is_given(wire.prompt) and not prompts:
        raise PromptNotFound(
            "prompt: this gateway has no prompts; send the text in instructions or input",
            param="prompt",
        )
    if wire.background:
        raise InvalidRequest(
            "background: this gateway does not answer in the background; use stream",
            param="background",
        )


def _is_given(raw: Raw | UnsetType) -> bool:
    return isinstance(raw, Raw) and not is_null(raw)


def _kept_alone(wire: ResponsesWire, extra: Mapping[str, Raw]) -> dict[str, Raw]:
    """Return what the answer repeats of a request without settings."""
    found = {"instructions": wire.instructions, "prompt": extra.get("prompt", UNSET)}
    return {name: raw for name, raw in found.items() if isinstance(raw, Raw) and not is_null(raw)}


def _kept(wire: ResponsesWire, extra: dict[str, Raw]) -> dict[str, Raw]:
    """Return what the answer repeats; of it, `extra` gets what any backend may know."""
    kept: dict[str, Raw] = {}
    for name in _SHARED:
        raw = getattr(wire, name)
        if isinstance(raw, Raw) and not is_null(raw):
            if bytes(raw)[:1] != b'"':
                raise InvalidRequest(f"{name} must be a string", param=name)
            kept[name] = extra[name] = raw
    for name in _REPEATED:
        raw = getattr(wire, name)
        if isinstance(raw, Raw) and not is_null(raw):
            kept[name] = raw
    if "prompt" in extra:
        kept["prompt"] = extra["prompt"]
    if "metadata" in kept and not is_object(kept["metadata"]):
        raise InvalidRequest("metadata must be an object", param="metadata")
    if wire.tools:
        kept["tools"] = Raw(encode(wire.tools))
    if wire.truncation == "auto":
        extra["truncation"] = Raw(b'"auto"')
    if wire.max_tool_calls is not None:
        extra["max_tool_calls"] = Raw(encode(wire.max_tool_calls))
    if wire.parallel_tool_calls is False:
        kept["parallel_tool_calls"] = Raw(b"false")
    if wire.top_logprobs:
        kept["top_logprobs"] = Raw(encode(wire.top_logprobs))
    return kept


def _read_include(wire: ResponsesWire, extra: dict[str, Raw]) -> bool:
    """Return whether the client wants log probabilities."""
    names = wire.include or []
    others = [name for name in names if name not in (ENCRYPTED, LOGPROBS)]
    if others:
        extra["include"] = Raw(encode(others))
    return LOGPROBS in names or bool(wire.top_logprobs)
