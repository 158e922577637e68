"""Conversations with one system message, at their beginning, which is all that many templates take.

Qwen's templates, for example, raise an error for any other conversation.
https://github.com/ggml-org/llama.cpp/issues/27367
"""

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.schemas.messages import Message, Part, TextPart, text_of

SYSTEM: Final = frozenset({"system", "developer"})
"""The roles of instructions."""


def with_joined_head(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the conversation with the system messages at its beginning joined into the first."""
    heads = next(
        (place for place, one in enumerate(messages) if one.role not in SYSTEM), len(messages)
    )
    if heads < 2:
        return messages
    return (_joined(messages[:heads]), *messages[heads:])


def with_later_in_place(messages: Sequence[Message], *, placed: bool = False) -> Sequence[Message]:
    """Return the conversation with later system messages as marked texts of the user.

    A later one keeps its place: moved to the beginning, it would apply to the turns before it, and
    change the beginning of the prompt, which vendors cache. placed: those stay that come between
    the user and an answer.
    """
    begun = False
    found: list[Message] = []
    for place, one in enumerate(messages):
        if one.role not in SYSTEM:
            begun = True
        elif begun and not (placed and _is_placed(messages, place)):
            one = _as_user(one)
        found.append(one)
    if all(new is old for new, old in zip(found, messages, strict=True)):
        return messages
    return tuple(found)


def _is_placed(messages: Sequence[Message], place: int) -> bool:
    """Return whether an instruction follows what the user sent, and an answer follows it."""
    after = messages[place + 1 : place + 2]
    return (
        messages[place - 1].role in ("user", "tool")
        and all(one.role == "assistant" for one in after)
        and _is_text(messages[place])
        and bool(text_of(messages[place]).strip())
    )


def _joined(heads: Sequence[Message]) -> Message:
    first = heads[0]
    if all(_is_text(one) for one in heads):
        texts = [text for one in heads if (text := text_of(one))]
        return replace(first, content="\n\n".join(texts), raw=UNSET)
    parts: list[Part] = []
    for one in heads:
        content = one.content
        parts += content if isinstance(content, tuple) else (TextPart(text=content or ""),)
    return replace(first, content=tuple(parts), raw=UNSET)


def _is_text(one: Message) -> bool:
    if not isinstance(one.content, tuple):
        return True
    return all(isinstance(part, TextPart) and part.marks is UNSET for part in one.content)


def _as_user(one: Message) -> Message:
    """Return the instruction as the user's text, marked as the system's."""
    if not isinstance(one.content, tuple):
        text = f"<system>\n{one.content or ''}\n</system>"
        return replace(one, role="user", content=text, raw=UNSET)
    parts = (TextPart(text="<system>"), *one.content, TextPart(text="</system>"))
    return replace(one, role="user", content=parts, raw=UNSET)
