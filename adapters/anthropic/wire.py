"""Wire types of answers of Anthropic's Messages API: events, and complete messages.

https://docs.anthropic.com/en/docs/build-with-claude/streaming
"""

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.schemas.events import Usage


class MessageHead(Struct, frozen=True, kw_only=True):
    """A complete answer, or the contents of `message_start`."""

    content: tuple[Raw, ...] | None = None
    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Raw = NULL
    error: Raw = NULL


class BlockDelta(Struct, frozen=True, kw_only=True):
    """A delta of a block, or, without a type, how the message ended."""

    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    citation: Raw = NULL
    stop_reason: str | None = None
    stop_sequence: str | None = None


_NO_DELTA = BlockDelta()


DELTAS = frozenset(
    {"", "citations_delta", "input_json_delta", "signature_delta", "text_delta", "thinking_delta"}
)
"""Types of deltas that `BlockDelta` covers completely."""


class _OtherDelta(Struct, frozen=True, kw_only=True):
    delta: dict[str, Raw] = {}


class _RawDelta(Struct, frozen=True, kw_only=True):
    delta: Raw = NULL


READ = frozenset(
    (
        *("content", "delta", "error", "id", "message", "model", "role", "type", "usage"),
        *("stop_reason", "stop_sequence"),
    )
)
"""Members of a message and its end that are read, or contain nothing for a client."""


class Event(Struct, frozen=True, kw_only=True):
    """Any event of a stream; `type` determines its fields."""

    type: str = ""
    index: int = 0
    message: MessageHead | None = None
    content_block: Raw = NULL
    delta: BlockDelta = _NO_DELTA
    usage: Raw = NULL
    error: Raw = NULL


class ContentBlock(Struct, frozen=True, kw_only=True):
    """A block that starts, or a block of a complete answer."""

    type: str = ""
    id: str = ""
    name: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    input: Raw = NULL
    citations: tuple[Raw, ...] | None = None


class Kind(Struct, frozen=True, kw_only=True):
    """The common fields of all events and blocks."""

    type: str = ""
    error: Raw = NULL


class RefusalDetails(Struct, frozen=True, kw_only=True):
    explanation: str | None = None


class _OutputDetails(Struct, frozen=True, kw_only=True):
    thinking_tokens: int | None = None


class _CacheCreation(Struct, frozen=True, kw_only=True):
    """Tokens written to the cache, by time to live."""

    ephemeral_1h_input_tokens: int | None = None


class _Counts(Struct, frozen=True, kw_only=True):
    """`input_tokens` excludes tokens read from the cache or written to it."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None


_read_raw_delta = msgspec.json.Decoder(_RawDelta).decode
_read_other_delta = msgspec.json.Decoder(_OtherDelta).decode
read_kind = msgspec.json.Decoder(Kind).decode
read_message = msgspec.json.Decoder(MessageHead).decode
read_event = msgspec.json.Decoder(Event).decode
read_block = msgspec.json.Decoder(ContentBlock).decode
read_details = msgspec.json.Decoder(RefusalDetails).decode
_read_counts = msgspec.json.Decoder(_Counts).decode
_encode = msgspec.json.Encoder().encode


def other_delta(data: bytes) -> dict[str, Raw]:
    """Return the members of a delta of a type not in `DELTAS`, without its type and nulls.

    data: the event. Raises msgspec's errors for an unreadable one.
    """
    fields = _read_other_delta(data).delta
    return {name: raw.copy() for name, raw in fields.items() if name != "type" and raw != NULL}


def read_delta(data: bytes) -> Raw:
    """Return the delta of an event. Raises msgspec's errors for an unreadable one."""
    return _read_raw_delta(data).delta.copy()


def about(data: bytes) -> dict[str, Raw]:
    """Return the unknown fields of a complete answer, or of an event that starts or ends one.

    Raises msgspec's errors if it is not a JSON object.
    """
    fields = read_object(data)
    for name in ("message", "delta"):
        inner = fields.get(name, NULL)
        if bytes(memoryview(inner)[:1]) == b"{":
            fields |= read_object(inner)
    return {name: raw.copy() for name, raw in fields.items() if name not in READ and raw != NULL}


def with_usage(known: dict[str, Raw], raw: Raw) -> dict[str, Raw]:
    """Merge counts: later ones are totals and replace earlier ones; unreadable ones are ignored."""
    try:
        return {**known, **{k: v for k, v in read_object(raw).items() if v != NULL}}
    except UNREADABLE:
        return known


def usage_of(known: dict[str, Raw]) -> Usage:
    """Read counts; unreadable ones are unknown and never fail an answer."""
    raw = Raw(_encode(known))
    try:
        counts = _read_counts(raw)
    except UNREADABLE:
        return Usage(raw=raw)
    written, read = counts.cache_creation_input_tokens, counts.cache_read_input_tokens
    prompt, completion = counts.input_tokens, counts.output_tokens
    if prompt is not None:
        prompt += (written or 0) + (read or 0)
    details = counts.output_tokens_details
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=None if prompt is None or completion is None else prompt + completion,
        cached_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=counts.cache_creation.ephemeral_1h_input_tokens
        if counts.cache_creation
        else None,
        reasoning_tokens=details.thinking_tokens if details else None,
        raw=raw,
    )
