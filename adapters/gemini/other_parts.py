"""Parts of Gemini's answers outside OpenAI's dialect: to the client, and back.

The client gets them unchanged as `gemini_parts` of the answer's message. Sent back, they become
parts of the model's turn again: Google requires calls of its own tools, and their results, back
unchanged.
https://ai.google.dev/api/caching#Part
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct, UnsetType

from adapters.openai.wire import NULL, UNREADABLE, read_object
from schemas.messages import Message

PARTS: Final = "gemini_parts"

READ_BACK: Final = frozenset(
    {"codeExecutionResult", "executableCode", "inlineData", "toolCall", "toolResponse"}
)
"""Kinds of parts that are sent back. Not `fileData`: it names a file of the operator's account."""

_MEMBERS: Final = READ_BACK | {"thought", "thoughtSignature"}


class _SentBack(Struct, frozen=True, kw_only=True):
    gemini_parts: tuple[Raw, ...] = ()


_read_sent_back = msgspec.json.Decoder(_SentBack).decode


def own_parts(one: Message) -> list[dict[str, object]]:
    """Return the parts of an earlier answer; [] if none are readable."""
    if isinstance(one.raw, UnsetType) or PARTS.encode() not in bytes(one.raw):
        return []
    try:
        parts = [read_object(part) for part in _read_sent_back(one.raw).gemini_parts]
    except UNREADABLE:
        return []
    kept = (
        {name: raw for name, raw in part.items() if name in _MEMBERS and raw != NULL}
        for part in parts
    )
    return [dict(part) for part in kept if not READ_BACK.isdisjoint(part)]
