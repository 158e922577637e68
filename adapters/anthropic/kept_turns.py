"""Find the turns of a client of this API that can be sent as it wrote them, one by one.

A turn whose messages are still the ones that were read from it keeps its JSON, because Anthropic
caches prompts by their bytes and refuses thinking whose turn was written again in another order.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.anthropic.original_fields import DIALECT
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.schemas.messages import Message, Part, TextPart, Thought, ToolCall
from strowger_gateway.schemas.requests import ChatRequest

_THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
_NO_PARTS: Final = _THOUGHTS | {"tool_use"}

Piece = Thought | Part | ToolCall

NOTHING: Final[Mapping[int, "KeptTurn"]] = {}


class KeptTurn(Struct, frozen=True, kw_only=True, gc=False):
    """messages: how many messages of the request the turn is. raw: its JSON, or NULL if it changed.

    blocks: the JSON of each block of a turn of the assistant that changed, to keep their order.
    """

    messages: int
    raw: Raw = NULL
    blocks: tuple[Raw, ...] = ()


class _Turn(Struct, frozen=True, kw_only=True, gc=False):
    content: str | tuple[Raw, ...] = ""


class _Kind(Struct, frozen=True, kw_only=True, gc=False):
    type: str = ""


_raws = msgspec.json.Decoder(list[Raw]).decode
_turn = msgspec.json.Decoder(_Turn).decode
_kind = msgspec.json.Decoder(_Kind).decode


def kept_turns(request: ChatRequest) -> Mapping[int, KeptTurn]:
    """Return the turns, by the index of their first message in the request."""
    original = request.original
    if original is None or original.dialect != DIALECT or not original.turns:
        return NOTHING
    read = original.read.messages
    try:
        raws = _raws(original.fields["messages"])
    except (KeyError, *UNREADABLE):
        return NOTHING
    starts: dict[int, int] = {}
    ends: list[int] = []
    at = len(read) - sum(original.turns)
    for turn, count in enumerate(original.turns):
        starts[id(read[at])] = turn
        at += count
        ends.append(at)
    found: dict[int, KeptTurn] = {}
    for place, message in enumerate(request.messages):
        turn = starts.get(id(message))
        if turn is not None:
            count = original.turns[turn]
            before = read[ends[turn] - count : ends[turn]]
            if _same(request.messages[place : place + count], before):
                found[place] = KeptTurn(messages=count, raw=raws[turn])
    for place, blocks in ordered_blocks(request).items():
        found.setdefault(place, KeptTurn(messages=1, blocks=blocks))
    return found


def ordered_blocks(request: ChatRequest) -> Mapping[int, tuple[Raw, ...]]:
    """Return the client's blocks of each turn of the assistant, by its message's index.

    Nothing if messages were added or removed since they were read.
    """
    original = request.original
    if original is None or original.dialect != DIALECT or not original.turns:
        return {}
    read, messages = original.read.messages, request.messages
    try:
        raws = _raws(original.fields["messages"])
    except (KeyError, *UNREADABLE):
        return {}
    found: dict[int, tuple[Raw, ...]] = {}
    at = len(read) - sum(original.turns)
    if len(read) != len(messages):
        return {}
    for turn, count in enumerate(original.turns):
        if messages[at].role == "assistant" and (blocks := _blocks(raws, turn)):
            found[at] = blocks
        at += count
    return found


def in_order(blocks: Sequence[Raw], message: Message) -> list[Piece] | None:
    """Return the message's pieces in the order of the client's blocks; `None` if it is unknown.

    blocks: of the turn as the client wrote it, of whose thoughts the message may lack some.
    """
    if message.reasoning or message.signature:
        return None
    content = message.content
    if isinstance(content, str):
        content = (TextPart(text=content),)
    kinds = [_kind(raw).type for raw in blocks]
    calls, parts = list(message.tool_calls), list(content or ())
    made = kinds.count("tool_use"), sum(1 for one in kinds if one not in _NO_PARTS)
    if made != (len(calls), len(parts)):
        return None
    thoughts = list(message.thoughts)
    ordered: list[Piece] = []
    for raw, kind in zip(blocks, kinds, strict=True):
        if kind not in _THOUGHTS:
            ordered.append(calls.pop(0) if kind == "tool_use" else parts.pop(0))
        elif thoughts and _is_block_of(raw, thoughts[0]):
            ordered.append(thoughts.pop(0))
    return None if thoughts else ordered


def _is_block_of(raw: Raw, thought: Thought) -> bool:
    proof = thought.signature or thought.data
    return not proof or proof.encode() in bytes(raw)


def _blocks(raws: Sequence[Raw], turn: int) -> tuple[Raw, ...]:
    try:
        content = _turn(raws[turn]).content
    except UNREADABLE:
        return ()
    return content if isinstance(content, tuple) else ()


def _same(one: Sequence[Message], other: Sequence[Message]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
