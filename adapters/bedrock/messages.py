"""Encodes conversations for Converse: separate instructions, and alternating turns.

Consecutive messages of one side become one turn; tool results are in the user's turn after the
calls.
https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-call.html
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Raw, Struct

from strowger_gateway.adapters.anthropic.kept_turns import in_order
from strowger_gateway.adapters.bedrock.content_blocks import (
    Block,
    Titles,
    cache_point,
    call_block,
    call_id,
    content_blocks,
    marks_of,
    status_of,
    text_block,
    thought_block,
)
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    CLAUDE,
    Message,
    Part,
    TextPart,
    Thought,
    ToolCall,
    provable_thoughts,
)

Side = Literal["user", "assistant"]
NO_ORDER: Final[Mapping[int, Sequence[Raw]]] = {}


class Turn(Struct, kw_only=True):
    role: Side
    content: list[Block]


class BedrockConversation(Struct, frozen=True, kw_only=True):
    """tools: it contains tool calls or their results."""

    system: list[Block]
    turns: list[Turn]
    tools: bool


def conversation(
    messages: tuple[Message, ...], order: Mapping[int, Sequence[Raw]] = NO_ORDER
) -> BedrockConversation:
    """Raises InvalidRequest, naming the path, for anything that Converse does not support.

    order: blocks as a client of Claude's own API wrote them, by the index of their message. Claude
    refuses its reasoning in another place than it had in the answer.
    """
    system: list[Block] = []
    turns: list[Turn] = []
    titles = Titles()
    tools = False
    for place, message in enumerate(messages):
        field = f"messages[{place}]"
        match message.role:
            case "system" | "developer":
                system += _instructions(message, field)
                continue
            case "user":
                role: Side = "user"
                blocks = _speaker_blocks(message, field, titles)
            case "assistant":
                role = "assistant"
                blocks = _answered(message, field, titles, order.get(place, ()))
                tools = tools or bool(message.tool_calls)
            case "tool" | "function":
                role = "user"
                blocks = _result(message, field, titles)
                tools = True
        blocks += cache_point(marks_of(message), field) if blocks else []
        if turns and turns[-1].role == role:
            turns[-1].content += blocks
        elif blocks:
            turns.append(Turn(role=role, content=blocks))
    if not turns or turns[0].role != "user":
        raise InvalidRequest(
            "messages: this backend requires a user message first",
            param="messages",
        )
    return BedrockConversation(system=system, turns=turns, tools=tools)


def _instructions(message: Message, field: str) -> list[Block]:
    _no_name(message, field)
    blocks: list[Block] = []
    for part, place in _parts(message, field):
        if not isinstance(part, TextPart):
            raise InvalidRequest(
                f"{place}: this backend accepts only text as instructions", param=place
            )
        blocks += content_blocks(part, place, Titles())
    return blocks + (cache_point(marks_of(message), field) if blocks else [])


def _speaker_blocks(message: Message, field: str, titles: Titles) -> list[Block]:
    _no_name(message, field)
    blocks = _content(message, field, titles)
    if not blocks:
        place = f"{field}.content"
        raise InvalidRequest(f"{place}: this backend does not accept an empty message", param=place)
    return blocks


def _answered(message: Message, field: str, titles: Titles, order: Sequence[Raw]) -> list[Block]:
    """Encode reasoning first, because its proof covers what follows, unless the order is known."""
    _no_name(message, field)
    own = provable_thoughts(message, (CLAUDE,))
    pieces = in_order(order, message) if order else None
    if pieces is None:
        pieces = [*own, *[part for part, _ in _parts(message, field)], *message.tool_calls]
    found: list[Block] = []
    parts = calls = 0
    whole = isinstance(message.content, str)
    for piece in pieces:
        match piece:
            case Thought():
                thought = thought_block(piece) if piece in own else None
                found += [] if thought is None else [thought]
            case ToolCall():
                found.append(call_block(piece, f"{field}.tool_calls[{calls}]"))
                calls += 1
            case _:
                where = f"{field}.content" if whole else f"{field}.content[{parts}]"
                found += content_blocks(piece, where, titles)
                parts += 1
    return found


def _result(message: Message, field: str, titles: Titles) -> list[Block]:
    """Encode a result; an empty one is a list without blocks, because AWS rejects blank text."""
    if not message.tool_call_id:
        raise InvalidRequest(
            f"{field}.tool_call_id: is required; this backend identifies a call by its id",
            param=f"{field}.tool_call_id",
        )
    blocks = _content(message, field, titles)
    result: Block = {
        "toolUseId": call_id(message.tool_call_id),
        "content": [block for block in blocks if "cachePoint" not in block],
    }
    status = status_of(marks_of(message), field)
    if status:
        result["status"] = status
    return [{"toolResult": result}, *(block for block in blocks if "cachePoint" in block)]


def _content(message: Message, field: str, titles: Titles) -> list[Block]:
    if isinstance(message.content, str):
        return [text_block(message.content)] if message.content.strip() else []
    return [
        block
        for part, place in _parts(message, field)
        for block in content_blocks(part, place, titles)
    ]


def _parts(message: Message, field: str) -> list[tuple[Part, str]]:
    """Return each part with its path."""
    if message.content is None:
        return []
    if isinstance(message.content, str):
        return [(TextPart(text=message.content), f"{field}.content")]
    return [(part, f"{field}.content[{at}]") for at, part in enumerate(message.content)]


def _no_name(message: Message, field: str) -> None:
    if message.name:
        raise InvalidRequest(
            f"{field}.name: this backend does not support names; write the name into the text",
            param=f"{field}.name",
        )
