"""Encodes a conversation as Anthropic's `system` and `messages`.

System and developer messages become the blocks of `system`, in order, wherever they were. The rest
alternates: neighbours of one role become one message, in which tool results come first. Reasoning
without proof is omitted, because Anthropic reads only its own.
https://docs.anthropic.com/en/api/messages
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct, UnsetType
from msgspec.structs import replace

from adapters.anthropic.content_blocks import Block, blocks, marks, thought_block
from adapters.openai.wire import NULL, UNREADABLE, read_object
from adapters.unnamed_messages import check_unnamed
from schemas.errors import InvalidRequest
from schemas.messages import (
    CLAUDE,
    Message,
    OpaquePart,
    TextPart,
    ToolCall,
    provable_thoughts,
    text_of,
)

CONTENT_BLOCKS = "content_blocks"
"""The field for an answer's own blocks, to the client and back, if they contain more than OpenAI's
fields can express."""

_SYSTEM = frozenset({"system", "developer"})
_UNCACHED = frozenset({"thinking", "redacted_thinking"})


class AnthropicConversation(Struct, frozen=True, kw_only=True):
    """system: [] if there is none. turns: alternating `role` and `content`."""

    system: list[Block | Raw]
    turns: list[Block]


class _SentBack(Struct, frozen=True, kw_only=True):
    content_blocks: tuple[Raw, ...] = ()


class _Kind(Struct, frozen=True, kw_only=True):
    type: str = ""
    text: str = ""
    id: str = ""


_read_sent_back = msgspec.json.Decoder(_SentBack).decode
_kind = msgspec.json.Decoder(_Kind).decode
_encode = msgspec.json.Encoder().encode


def conversation(messages: Sequence[Message]) -> AnthropicConversation:
    """Raises InvalidRequest for unsupported message fields, and for arguments not in JSON."""
    system: list[Block | Raw] = []
    turns: list[tuple[str, list[Block | Raw]]] = []
    for place, one in enumerate(messages):
        field = f"messages[{place}]"
        check_unnamed(one, field)
        if one.role in _SYSTEM:
            system += _marked(_system(one, field), one)
            continue
        role = "assistant" if one.role == "assistant" else "user"
        content = _marked(_content(one, field), one)
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(content)
        elif content:
            turns.append((role, content))
    if not turns:
        raise InvalidRequest("messages: a message of role user is required", param="messages")
    _trim_end(turns[-1])
    return AnthropicConversation(
        system=system,
        turns=[{"role": role, "content": _results_first(content)} for role, content in turns],
    )


def _system(one: Message, field: str) -> list[Block | Raw]:
    content = one.content
    if isinstance(content, tuple):
        for place, part in enumerate(content):
            if not isinstance(part, TextPart):
                where = f"{field}.content[{place}]"
                raise InvalidRequest(
                    f"{where}: this backend accepts only text from role {one.role}", param=where
                )
    return blocks(content, f"{field}.content")


def _content(one: Message, field: str) -> list[Block | Raw]:
    match one.role:
        case "tool":
            return [_result(one, field)]
        case "assistant":
            return _sent_back(one) or _assistant(one, field)
        case _:
            return blocks(one.content, f"{field}.content")


def _assistant(one: Message, field: str) -> list[Block | Raw]:
    """Encode reasoning, text, calls, in the order that a turn with tool calls requires."""
    thoughts = (thought_block(thought) for thought in provable_thoughts(one, (CLAUDE,)))
    found: list[Block | Raw] = [block for block in thoughts if block is not None]
    content = one.content
    if isinstance(content, str):
        content = (TextPart(text=content),)
    kept = tuple(
        replace(part, text=part.text if part.text.strip() else "")
        if isinstance(part, TextPart)
        else part
        for part in content or ()
    )
    found += blocks(kept, f"{field}.content")
    calls = enumerate(one.tool_calls)
    return [*found, *(_call(call, f"{field}.tool_calls[{at}]") for at, call in calls)]


def _call(call: ToolCall, field: str) -> Block:
    where = f"{field}.function.arguments"
    try:
        arguments = read_object(call.arguments.strip() or "{}")
    except UNREADABLE as exc:
        raise InvalidRequest(f"{where}: must be a JSON object in a string", param=where) from exc
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _result(one: Message, field: str) -> Block:
    if not one.tool_call_id:
        where = f"{field}.tool_call_id"
        raise InvalidRequest(f"{where}: is required in a message of role tool", param=where)
    block: Block = {"type": "tool_result", "tool_use_id": one.tool_call_id}
    if isinstance(one.content, str):
        block["content"] = one.content
    elif one.content:
        block["content"] = blocks(one.content, f"{field}.content")
    failed = marks(one).is_error
    if failed is not None:
        block["is_error"] = failed
    return block


def _marked(content: list[Block | Raw], one: Message) -> list[Block | Raw]:
    """Apply a mark on the message to its last block."""
    cache = marks(one).cache_control
    if cache == NULL or not content:
        return content
    last = content[-1]
    fields = last if isinstance(last, dict) else {**read_object(last)}
    if _kind(_encode(fields)).type not in _UNCACHED:
        content[-1] = {**fields, "cache_control": cache}
    return content


def _sent_back(one: Message) -> list[Block | Raw]:
    """Return the answer's own blocks if they still match the message, else []."""
    if isinstance(one.raw, UnsetType) or CONTENT_BLOCKS.encode() not in bytes(one.raw):
        return []
    try:
        returned = _read_sent_back(one.raw).content_blocks
        kinds = [_kind(block) for block in returned]
    except UNREADABLE:
        return []
    text = "".join(kind.text for kind in kinds if kind.type == "text")
    calls = [kind.id for kind in kinds if kind.type == "tool_use"]
    same = text == text_of(one) and calls == [call.id for call in one.tool_calls]
    opaque = isinstance(one.content, tuple) and any(
        isinstance(part, OpaquePart) for part in one.content
    )
    return list(returned) if same and not opaque else []


def _results_first(content: list[Block | Raw]) -> list[Block | Raw]:
    return sorted(content, key=lambda block: not _is(block, "tool_result"))


def _is(block: Block | Raw, kind: str) -> bool:
    return isinstance(block, dict) and block["type"] == kind


def _trim_end(turn: tuple[str, list[Block | Raw]]) -> None:
    """Trim the end of a prefilled answer, which must not end in white space."""
    role, content = turn
    last = content[-1]
    if role == "assistant" and isinstance(last, dict) and last["type"] == "text":
        content[-1] = {**last, "text": str(last["text"]).rstrip()}
