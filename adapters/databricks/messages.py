"""Encodes messages for Databricks: only roles, fields and nulls of its reference.

It rejects a message with an unknown field, so other dialects' fields next to the content
(`reasoning_content`, `refusal: null`) become a part of the content or are omitted.
https://docs.databricks.com/aws/en/machine-learning/foundation-model-apis/api-reference#contentitem
"""

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.adapters.openai.content_parts import CONTENT_PARTS, sent_back
from strowger_gateway.adapters.openai.encode import Body, encode_body, message, part
from strowger_gateway.schemas.messages import Message, OpaquePart, Thought, thoughts_of

_BECOME_PARTS = frozenset(
    {
        "reasoning",
        "reasoning_content",
        "reasoning_signature",
        "reasoning_details",
        CONTENT_PARTS,
    }
)


class _Summary(Struct, frozen=True, kw_only=True):
    """data: reasoning that only the vendor can read."""

    data: str | None = None


class _Part(Struct, frozen=True, kw_only=True):
    summary: tuple[_Summary, ...] = ()


_part = msgspec.json.Decoder(_Part)


def databricks_message(one: Message) -> Message:
    """Return the message with its `raw` in Databricks' format, if that differs."""
    return _assistant(one) if one.role == "assistant" else one


def _assistant(one: Message) -> Message:
    """Put reasoning first: Claude rejects a turn with tool calls that starts otherwise."""
    fields = _fields(one)
    parts = sent_back(fields.get(CONTENT_PARTS))
    thoughts: list[Raw | Body] = [raw for kind, raw in parts if kind == "reasoning"]
    others = [raw for kind, raw in parts if kind != "reasoning"]
    if not _has_reasoning_part(one):
        thoughts = [*(_reasoning(thought) for thought in thoughts_of(one)), *thoughts]
    kept = {
        name: value
        for name, value in fields.items()
        if name not in _BECOME_PARTS and (name == "content" or value != NULL)
    }
    if thoughts or others:
        kept["content"] = [*thoughts, *_parts(one), *others]
    elif kept.keys() == fields.keys():
        return one
    return _with_fields(one, kept)


def _fields(one: Message) -> Body:
    return {**read_object(one.raw)} if isinstance(one.raw, Raw) else message(one)


def _with_fields(one: Message, fields: Body) -> Message:
    return replace(one, raw=Raw(encode_body(fields)))


def _has_reasoning_part(one: Message) -> bool:
    """Return whether the client sent the reasoning in Databricks' format."""
    return isinstance(one.content, tuple) and any(
        isinstance(piece, OpaquePart) and piece.type == "reasoning" and _can_be_read(piece)
        for piece in one.content
    )


def _can_be_read(piece: OpaquePart) -> bool:
    try:
        return not any(one.data for one in _part.decode(piece.raw).summary)
    except UNREADABLE:
        return True


def _reasoning(thought: Thought) -> Body:
    if thought.data:
        encrypted: Body = {"type": "summary_encrypted_text", "data": thought.data}
        return {"type": "reasoning", "summary": [encrypted]}
    summary: Body = {"type": "summary_text", "text": thought.text}
    if thought.signature:
        summary["signature"] = thought.signature
    return {"type": "reasoning", "summary": [summary]}


def _parts(one: Message) -> list[Raw | Body]:
    if isinstance(one.content, tuple):
        return [part(piece) for piece in one.content]
    return [{"type": "text", "text": one.content}] if one.content else []
