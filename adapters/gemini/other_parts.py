"""Parts of Gemini's answers outside OpenAI's dialect: to the client, and back.

The client gets them unchanged as `gemini_parts` of the answer's message. Sent back, they become
parts of the model's turn again: Google requires calls of its own tools, and their results, back
unchanged. Clients of Messages and Responses send back only content, so they also get the parts as
reasoning that only Google reads.
https://ai.google.dev/api/caching#Part
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct, UnsetType

from strowger_gateway.adapters.json_objects import NULL, UNREADABLE, read_list, read_object
from strowger_gateway.schemas.messages import Message

PARTS: Final = "gemini_parts"

READ_BACK: Final = frozenset(
    {"codeExecutionResult", "executableCode", "inlineData", "toolCall", "toolResponse"}
)
"""Kinds of parts that are sent back. Not `fileData`: it names a file of the operator's account."""

_MEMBERS: Final = READ_BACK | {"thought", "thoughtSignature"}


_IN_REASONING: Final = "parts."
"""Begins the parts in a thought's `data`. OpenRouter puts signatures there, in base64: no dots."""


class _SentBack(Struct, frozen=True, kw_only=True):
    gemini_parts: tuple[Raw, ...] = ()


_read_sent_back = msgspec.json.Decoder(_SentBack).decode
_encode = msgspec.json.Encoder().encode


def own_parts(one: Message) -> list[dict[str, object]]:
    """Return the parts of an earlier answer; [] if none are readable."""
    if isinstance(one.raw, UnsetType) or PARTS.encode() not in bytes(one.raw):
        return []
    try:
        return _kept(_read_sent_back(one.raw).gemini_parts)
    except UNREADABLE:
        return []


def as_reasoning(parts: Sequence[Raw]) -> str:
    """Return a thought's `data` with the parts that are sent back; "" if none are."""
    kept = [part for part in parts if not READ_BACK.isdisjoint(read_object(part))]
    return _IN_REASONING + urlsafe_b64encode(_encode(kept)).decode() if kept else ""


def from_reasoning(data: str) -> list[dict[str, object]]:
    """Return the parts in a thought's `data`; [] if it has none."""
    if not data.startswith(_IN_REASONING):
        return []
    try:
        return _kept(read_list(urlsafe_b64decode(data.removeprefix(_IN_REASONING))))
    except (*UNREADABLE, ValueError):
        return []


def _kept(parts: Iterable[Raw]) -> list[dict[str, object]]:
    """Raises one of `UNREADABLE` for what is not a part."""
    fields = [read_object(part) for part in parts]
    kept = (
        {name: raw for name, raw in part.items() if name in _MEMBERS and raw != NULL}
        for part in fields
    )
    return [dict(part) for part in kept if not READ_BACK.isdisjoint(part)]
