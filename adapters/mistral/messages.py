"""Encodes messages and tools for Mistral: only fields of its schema.

Reasoning is a chunk of an assistant's content, and audio is plain base64.
https://docs.mistral.ai/api
"""

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.json_objects import NULL, read_object
from strowger_gateway.adapters.openai.content_parts import CONTENT_PARTS, sent_back
from strowger_gateway.adapters.openai.encode import Body, encode_body, message, part
from strowger_gateway.adapters.openai.encode import tool as openai_tool
from strowger_gateway.schemas.messages import (
    MISTRAL,
    AudioPart,
    FunctionTool,
    Message,
    OpaquePart,
    Part,
    Thought,
    Tool,
    provable_thoughts,
)

NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')
"""Parameters of a function without any; Mistral requires them."""

_BECOME_CHUNKS = frozenset(
    {
        "reasoning",
        "reasoning_content",
        "reasoning_signature",
        "reasoning_details",
        CONTENT_PARTS,
    }
)
_EMPTY = frozenset({b"null", b"[]", b"{}"})


class _Calls(Struct, frozen=True, kw_only=True):
    tool_calls: tuple[dict[str, Raw], ...]


_calls = msgspec.json.Decoder(_Calls)


def mistral_message(one: Message) -> Message:
    """Return the message with its `raw` in Mistral's format; Mistral rejects unknown content."""
    fields: Body = {**read_object(one.raw)} if isinstance(one.raw, Raw) else message(one)
    kept: Body = {
        name: value
        for name, value in fields.items()
        if name == "content" or (name not in _BECOME_CHUNKS and not _is_empty(value))
    }
    if "tool_calls" in kept:
        calls = _calls.decode(encode_body({"tool_calls": kept["tool_calls"]})).tool_calls
        kept["tool_calls"] = [_call(call) for call in calls]
    before = _thinking(one) if one.role == "assistant" else []
    after = [raw for _, raw in sent_back(fields.get(CONTENT_PARTS))]
    if before or after or isinstance(one.content, tuple):
        kept["content"] = [*before, *_chunks(one), *after]
    return replace(one, raw=Raw(encode_body(kept)))


def mistral_tool(one: Tool) -> Tool:
    """Encode a tool; a function without parameters gets empty ones, nulls are omitted."""
    if not isinstance(one, FunctionTool):
        return one
    fields = read_object(encode_body({"tool": openai_tool(one)}))
    wire = read_object(fields["tool"])
    function = {
        name: value for name, value in read_object(wire["function"]).items() if value != NULL
    }
    function.setdefault("parameters", NO_PARAMETERS)
    return replace(one, raw=Raw(encode_body({**wire, "function": function})))


def _is_empty(value: object) -> bool:
    return isinstance(value, Raw) and bytes(value) in _EMPTY


def _call(fields: dict[str, Raw]) -> Body:
    return {
        name: value
        for name, value in fields.items()
        if name != "extra_content" and not _is_empty(value)
    }


def _thinking(one: Message) -> list[Body]:
    """Return nothing if the client sent the chunks back as Mistral had returned them."""
    if isinstance(one.content, tuple) and any(
        isinstance(piece, OpaquePart) and piece.type == "thinking" for piece in one.content
    ):
        return []
    own = provable_thoughts(one, (MISTRAL,))
    return [_thought(thought) for thought in own if thought.text or thought.signature]


def _thought(thought: Thought) -> Body:
    chunk: Body = {"type": "thinking", "thinking": [{"type": "text", "text": thought.text}]}
    if thought.signature:
        chunk["signature"] = thought.signature
    return chunk


def _chunks(one: Message) -> list[Raw | Body]:
    if isinstance(one.content, tuple):
        return [_chunk(piece) for piece in one.content]
    return [{"type": "text", "text": one.content}] if one.content else []


def _chunk(piece: Part) -> Raw | Body:
    if isinstance(piece, AudioPart):
        return {"type": "input_audio", "input_audio": piece.data}
    return part(piece)
