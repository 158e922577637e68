"""The pieces of streamed text in an answer's events: where each belongs, and its text replaced."""

from collections.abc import Mapping
from typing import Final, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from strowger_gateway.gateway.content.hooks.contract import Channel
from strowger_gateway.schemas.events import (
    NativeDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolDelta,
)

Piece = TextDelta | ReasoningDelta | RefusalDelta | ToolDelta | NativeDelta
Key = tuple[object, ...]
"""Its first item is the choice."""

_TEXTS: Final = ("delta", "partial_json", "text", "thinking")
_PLACE: Final = ("type", "output_index", "content_index", "summary_index")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class TextPlace(Struct, frozen=True, kw_only=True, gc=False):
    """Where a piece of text belongs."""

    key: Key
    channel: Channel
    text: str


def place_of(event: Piece) -> TextPlace | None:
    """Return where an event's text belongs; `None` for a native event without a piece of text."""
    at = event.index
    match event:
        case TextDelta():
            return TextPlace(key=text_key(at), channel="text", text=event.text)
        case RefusalDelta():
            return TextPlace(key=(at, "refusal"), channel="refusal", text=event.text)
        case ReasoningDelta():
            key = (at, "reasoning", event.block)
            return TextPlace(key=key, channel="reasoning", text=event.text)
        case ToolDelta():
            key = (at, "tool", event.tool)
            return TextPlace(key=key, channel="tool_arguments", text=event.arguments)
        case NativeDelta():
            return _native_place(event)


def text_key(choice: int) -> Key:
    """Return the key of a choice's text."""
    return choice, "text"


def _native_place(event: NativeDelta) -> TextPlace | None:
    """Find the text of `response.….delta` and of Anthropic's `…_delta`; each has one of _TEXTS."""
    if event.delta is None or b"delta" not in bytes(event.delta):
        return None
    fields: object = _decode(event.delta)
    if not isinstance(fields, dict):
        return None
    found = cast("Mapping[str, object]", fields)
    if not str(found.get("type", "")).endswith("delta"):
        return None
    for name in _TEXTS:
        text = found.get(name)
        if isinstance(text, str):
            where = tuple(found.get(one) for one in _PLACE)
            key = (event.index, "native", name, *where)
            channel = "tool_arguments" if _is_json(name, str(found["type"])) else "other"
            return TextPlace(key=key, channel=channel, text=text)
    return None


def _is_json(name: str, kind: str) -> bool:
    return name == "partial_json" or kind == "response.function_call_arguments.delta"


def with_text(event: Piece, text: str) -> Piece:
    """The event with another text, and without log probabilities, which repeat it."""
    match event:
        case ToolDelta():
            return replace(event, arguments=text)
        case ReasoningDelta():
            return replace(event, text=text)
        case NativeDelta():
            return _native_with(event, text)
        case _:
            return replace(event, text=text, logprobs=())


def only_text(event: Piece, text: str) -> Piece:
    """The text at the event's place, without what came with the event."""
    match event:
        case TextDelta():
            return TextDelta(text=text, index=event.index)
        case RefusalDelta():
            return RefusalDelta(text=text, index=event.index)
        case ReasoningDelta():
            return ReasoningDelta(text=text, index=event.index, block=event.block)
        case ToolDelta():
            return ToolDelta(tool=event.tool, index=event.index, arguments=text)
        case NativeDelta():
            return _native_with(event, text)


def carries_more(event: Piece) -> bool:
    """Whether it has more than text."""
    if isinstance(event, ToolDelta):
        return bool(event.id or event.name or event.signature)
    return isinstance(event, ReasoningDelta) and bool(event.signature or event.data)


def _native_with(event: NativeDelta, text: str) -> NativeDelta:
    assert event.delta is not None
    fields = cast("dict[str, object]", _decode(event.delta))
    for name in _TEXTS:
        if isinstance(fields.get(name), str):
            fields[name] = text
            fields.pop("logprobs", None)
            break
    return replace(event, delta=Raw(_encode(fields)))
