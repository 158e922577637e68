"""What stays of a conversation when a summary takes the place of the rest, and in which order.

1. The instructions.
2. The user's latest messages, as many as there is room for; those before them are in the summary.
3. The summary.
4. The messages that nothing has answered yet.
"""

from collections.abc import Sequence

from msgspec import Raw, Struct

from strowger_gateway.gateway.content.compaction.transcript import INSTRUCTIONS
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.gateway.surfaces.responses.compaction import SUMMARY, summary_text
from strowger_gateway.gateway.surfaces.stored_items import Compacted
from strowger_gateway.gateway.surfaces.token_estimate.estimate import text_tokens
from strowger_gateway.schemas.messages import ImagePart, Message, OpaquePart, TextPart, text_of

ANSWERED = frozenset({"assistant", "tool", "function"})


class ConversationWindow(Struct, frozen=True, kw_only=True):
    """instructions: at the beginning. replaced: what the summary is of, with the user's messages.

    kept: of the user, before the summary. waiting: after the last answer or result.
    """

    instructions: tuple[Message, ...]
    replaced: tuple[Message, ...]
    kept: tuple[Message, ...]
    waiting: tuple[Message, ...]

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


def window_of(messages: Sequence[Message], room: float) -> ConversationWindow:
    """room: tokens for the user's messages before the summary.

    Nothing is replaced in a conversation without answers.
    """
    first = next((at for at, one in enumerate(messages) if one.role not in INSTRUCTIONS), 0)
    last = max((at for at, one in enumerate(messages) if one.role in ANSWERED), default=-1) + 1
    if last <= first:
        return ConversationWindow(instructions=tuple(messages), replaced=(), kept=(), waiting=())
    kept: list[Message] = []
    for one in reversed(messages[first:last]):
        if one.role in ANSWERED or text_of(one).startswith(SUMMARY):
            continue
        if one.role == "user":
            room -= text_tokens(text_of(one))
            if room < 0:
                continue
        kept.append(one)
    return ConversationWindow(
        instructions=tuple(messages[:first]),
        replaced=tuple(messages[:last]),
        kept=tuple(reversed(kept)),
        waiting=tuple(messages[last:]),
    )


def _item(one: Message) -> Raw:
    """Return a message of the user, or an instruction, as an item."""
    content = one.content
    parts: list[object]
    if content is None or isinstance(content, str):
        parts = [{"type": "input_text", "text": content or ""}]
    else:
        parts = [found for part in content if (found := _part(part)) is not None]
    return Raw(encode({"type": "message", "role": one.role, "content": parts}))


def _part(part: object) -> object:
    match part:
        case TextPart():
            return {"type": "input_text", "text": part.text}
        case ImagePart():
            detail = part.detail if isinstance(part.detail, str) else "auto"
            return {"type": "input_image", "image_url": part.url, "detail": detail}
        case OpaquePart() if part.dialect:
            return part.raw
        case _:
            return None
