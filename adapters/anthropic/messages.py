"""Encodes a conversation as Anthropic's `system` and `messages`.

System and developer messages become the blocks of `system`, in order, wherever they were. For
models that take later ones, these keep their place. The rest alternates:
neighbours of one role become one message, in which tool results come first. Turns that the client
wrote in this API's own format and that nothing changed stay as they are. Reasoning without proof is
omitted, because Anthropic reads only its own.
https://docs.anthropic.com/en/api/messages
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct, UnsetType

from strowger_gateway.adapters.anthropic.content_blocks import Block, blocks, marks, thought_block
from strowger_gateway.adapters.anthropic.kept_turns import NOTHING, KeptTurn, Piece, in_order
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_object
from strowger_gateway.adapters.unnamed_messages import check_unnamed
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    CLAUDE,
    Message,
    OpaquePart,
    Part,
    TextPart,
    Thought,
    ToolCall,
    provable_thoughts,
    text_of,
)

CONTENT_BLOCKS = "content_blocks"
"""The field for an answer's own blocks, to the client and back, if they contain more than OpenAI's
fields can express."""

_SYSTEM = frozenset({"system", "developer"})
_CHANGED = KeptTurn(messages=1)
_UNCACHED = frozenset({"thinking", "redacted_thinking"})


class AnthropicConversation(Struct, frozen=True, kw_only=True):
    """system: [] if there is none. turns: `role` and `content`, or the client's JSON of both."""

    system: list[Block | Raw]
    turns: list[Block | Raw]


class _SentBack(Struct, frozen=True, kw_only=True):
    content_blocks: tuple[Raw, ...] = ()


class _Kind(Struct, frozen=True, kw_only=True):
    type: str = ""
    text: str = ""
    id: str = ""


_read_sent_back = msgspec.json.Decoder(_SentBack).decode
_kind = msgspec.json.Decoder(_Kind).decode
_encode = msgspec.json.Encoder().encode


class _Turn(Struct, kw_only=True):
    role: str
    content: list[Block | Raw]


def conversation(
    messages: Sequence[Message],
    kept: Mapping[int, KeptTurn] = NOTHING,
    *,
    unproven: bool = False,
    later_system: bool = False,
) -> AnthropicConversation:
    """Raises InvalidRequest for unsupported message fields, and for arguments not in JSON.

    kept: turns of the client's own, by the index of their first message. unproven: the model reads
    reasoning without a proof, if the client speaks this API. later_system: it takes messages of
    role system between turns.
    """
    system: list[Block | Raw] = []
    turns: list[_Turn | Raw] = []
    done = 0
    for place, one in enumerate(messages):
        turn = kept.get(place, _CHANGED)
        if place < done:
            continue
        if turn.raw != NULL:
            turns.append(turn.raw)
            done = place + turn.messages
            continue
        field = f"messages[{place}]"
        if one.name or one.role == "function":
            check_unnamed(one, field)
        if one.role in _SYSTEM:
            said = _marked(_system(one, field), one)
            if turns and said and later_system:
                turns.append(_Turn(role="system", content=said))
            else:
                system += said
            continue
        role = "assistant" if one.role == "assistant" else "user"
        found = _content(one, field, turn.blocks, unproven=unproven)
        content = _marked(found, one)
        last = turns[-1] if turns else None
        if isinstance(last, _Turn) and last.role == role:
            last.content.extend(content)
        elif content:
            turns.append(_Turn(role=role, content=content))
    if not turns:
        raise InvalidRequest("messages: a message of role user is required", param="messages")
    return AnthropicConversation(
        system=system,
        turns=[
            {"role": one.role, "content": _results_first(one.content)}
            if isinstance(one, _Turn)
            else one
            for one in turns
        ],
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


def _content(
    one: Message, field: str, order: Sequence[Raw], *, unproven: bool
) -> list[Block | Raw]:
    match one.role:
        case "tool":
            return [_result(one, field)]
        case "assistant":
            return _sent_back(one) or _assistant(one, field, order, unproven=unproven)
        case _:
            return blocks(one.content, f"{field}.content")


def _assistant(
    one: Message, field: str, order: Sequence[Raw], *, unproven: bool
) -> list[Block | Raw]:
    """Encode reasoning, text, calls, in the order that a turn with tool calls requires.

    order: the client's blocks, whose order applies instead.
    """
    own = provable_thoughts(one, (CLAUDE,))
    pieces: Sequence[Piece] | None = in_order(order, one) if order else None
    if pieces is None:
        content = one.content
        if isinstance(content, str):
            content = (TextPart(text=content),)
        pieces = [*own, *(content or ()), *one.tool_calls]
    found: list[Block | Raw] = []
    parts = calls = 0
    for piece in pieces:
        match piece:
            case Thought():
                thought = thought_block(piece) if piece in own else None
                if thought is not None:
                    found.append(thought)
                elif unproven and order and piece.kind == "text":
                    found.append({"type": "thinking", "thinking": piece.text, "signature": ""})
            case ToolCall():
                found.append(_call(piece, f"{field}.tool_calls[{calls}]"))
                calls += 1
            case _:
                found += [] if _is_blank(piece) else blocks((piece,), f"{field}.content", parts)
                parts += 1
    return found


def _is_blank(piece: Part) -> bool:
    return isinstance(piece, TextPart) and not piece.text.strip()


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
