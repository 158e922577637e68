"""What stays of a conversation when a summary takes the place of the rest, and in which order.

1. The instructions.
2. The user's latest messages, as many as there is room for; those before them are in the summary.
3. The summary.
4. The messages that nothing has answered yet.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.gateway.content.compaction.transcript import INSTRUCTIONS
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses.compaction import SUMMARY, summary_text
from strowger_gateway.gateway.surfaces.stored_items import Compacted
from strowger_gateway.gateway.surfaces.token_estimate.estimate import message_tokens
from strowger_gateway.schemas.messages import (
    AudioPart,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    text_of,
)

ANSWERED = frozenset({"assistant", "tool", "function"})


class _File(Struct, frozen=True, kw_only=True):
    """A file as `strowger_gateway.gateway.surfaces.responses.contents` keeps it."""

    file: dict[str, Raw]


_file: Final = msgspec.json.Decoder(_File)


class ConversationWindow(Struct, frozen=True, kw_only=True):
    """instructions: at the beginning. replaced: what the summary is of, with the user's messages.

    kept: of the user, before the summary. waiting: after the last answer or result.
    gain: tokens of what the summary takes the place of.
    """

    instructions: tuple[Message, ...]
    replaced: tuple[Message, ...]
    kept: tuple[Message, ...]
    waiting: tuple[Message, ...]
    gain: float = 0.0

    def with_summary(self, summary: str) -> tuple[Message, ...]:
        """Return the conversation to answer."""
        said = Message(role="user", content=summary_text(summary))
        return (*self.instructions, *self.kept, said, *self.waiting)

    def sealed(self, summary: str) -> Compacted:
        """Return what the client's item stands for: all of it but leading instructions."""
        return Compacted(
            summary=summary,
            before=[_item(one) for one in self.kept],
            after=[_item(one) for one in self.waiting],
            whole=True,
        )


def window_of(messages: Sequence[Message], room: float, model: str) -> ConversationWindow:
    """room: tokens for the user's messages before the summary, as this model counts pictures.

    Nothing is replaced in a conversation without answers.
    """
    first = next((at for at, one in enumerate(messages) if one.role not in INSTRUCTIONS), 0)
    last = max((at for at, one in enumerate(messages) if one.role in ANSWERED), default=-1) + 1
    if last <= first:
        return ConversationWindow(instructions=tuple(messages), replaced=(), kept=(), waiting=())
    kept: list[Message] = []
    gain = 0.0
    for one in reversed(messages[first:last]):
        if one.role == "user" and text_of(one).startswith(SUMMARY):
            continue
        tokens = message_tokens(one, model)
        if one.role == "user":
            room -= tokens
        if one.role in ANSWERED or (one.role == "user" and room < 0):
            gain += tokens
        else:
            kept.append(one)
    return ConversationWindow(
        instructions=tuple(messages[:first]),
        replaced=tuple(messages[:last]),
        kept=tuple(reversed(kept)),
        waiting=tuple(messages[last:]),
        gain=gain,
    )


def _item(one: Message) -> Raw:
    """Return a message of the user, or an instruction, as an item."""
    content = one.content
    parts: list[object]
    if content is None or isinstance(content, str):
        parts = [{"type": "input_text", "text": content or ""}]
    else:
        parts = [_part(part) for part in content]
    return Raw(encode({"type": "message", "role": one.role, "content": parts}))


def _part(part: Part) -> object:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case ImagePart():
            detail = part.detail if isinstance(part.detail, str) else "auto"
            return {"type": "input_image", "image_url": part.url, "detail": detail}
        case AudioPart():
            sound = {"data": part.data, "format": part.format}
            return {"type": "input_audio", "input_audio": sound}
        case OpaquePart() if part.dialect:
            return part.raw
        case OpaquePart():
            return {"type": "input_file", **_file.decode(part.raw).file}
