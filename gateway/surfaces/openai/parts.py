"""Parse the contents of an OpenAI message: content parts and tool calls.

A part of an unknown type, or of one that no other dialect supports, becomes an `OpaquePart`, so
that a backend that does not support it rejects it by name.
"""

from typing import Final, Literal, cast

import msgspec
from msgspec import UNSET, DecodeError, Raw, Struct, ValidationError

from strowger_gateway.gateway.surfaces.decoding import invalid_request
from strowger_gateway.gateway.surfaces.openai.wire import ALLOWED, NonEmpty
from strowger_gateway.gateway.surfaces.strict_structs import strict, strict_type
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    AudioPart,
    ImagePart,
    OpaquePart,
    Part,
    TextPart,
    ToolCall,
)

URL_SCHEMES: Final = ("https://", "http://", "gs://", "data:")
"""`gs:` is Google Cloud Storage, which Gemini reads itself; every other backend rejects it."""


class _TextWire(Struct, frozen=True, kw_only=True, tag_field="type", tag="text"):
    text: str


class _RefusalWire(Struct, frozen=True, kw_only=True, tag_field="type", tag="refusal"):
    refusal: str


class _ImageUrl(Struct, frozen=True, kw_only=True):
    url: str
    detail: str | None = None


class _ImageWire(Struct, frozen=True, kw_only=True, tag_field="type", tag="image_url"):
    """image_url: an object, or the bare address."""

    image_url: _ImageUrl | str


class _Audio(Struct, frozen=True, kw_only=True):
    data: NonEmpty
    format: NonEmpty


class _AudioWire(Struct, frozen=True, kw_only=True, tag_field="type", tag="input_audio"):
    input_audio: _Audio


class _Function(Struct, frozen=True, kw_only=True):
    name: NonEmpty
    arguments: str


class _Google(Struct, frozen=True, kw_only=True):
    thought_signature: str = ""


class _ExtraContent(Struct, frozen=True, kw_only=True):
    """https://ai.google.dev/gemini-api/docs/openai#thinking"""

    google: _Google | None = None


class _CallWire(Struct, frozen=True, kw_only=True):
    id: str
    extra_content: _ExtraContent | None = None
    function: _Function
    type: Literal["function"] = "function"


class _PartKind(Struct, frozen=True, kw_only=True):
    type: NonEmpty


class _CallKind(Struct, frozen=True, kw_only=True):
    type: NonEmpty = "function"


_PartWire = _TextWire | _RefusalWire | _ImageWire | _AudioWire
_KNOWN: Final = frozenset(("text", "refusal", "image_url", "input_audio", "function"))

_part: Final[msgspec.json.Decoder[_PartWire]] = msgspec.json.Decoder(_PartWire)
_strict_part: Final[msgspec.json.Decoder[_PartWire]] = msgspec.json.Decoder(
    cast("type[_PartWire]", strict_type(_PartWire))
)
_part_kind: Final = msgspec.json.Decoder(_PartKind)
_call: Final = msgspec.json.Decoder(_CallWire)
_strict_call: Final = msgspec.json.Decoder(strict(_CallWire))
_call_kind: Final = msgspec.json.Decoder(_CallKind)


def read_parts(raws: list[Raw], message: int, *, strictly: bool = False) -> tuple[Part, ...]:
    """message: its index, used in error paths. Raises InvalidRequest.

    strictly: see read_messages.
    """
    if not raws:
        where = f"messages[{message}].content"
        raise InvalidRequest(f"{where} must have at least one part", param=where)
    return tuple([_read_part(raw, message, place, strictly) for place, raw in enumerate(raws)])


def read_calls(
    raws: list[Raw], message: int, *, strictly: bool = False
) -> tuple[tuple[ToolCall, ...], tuple[OpaquePart, ...]]:
    """Return function calls, and calls of other types. Raises InvalidRequest."""
    calls: list[ToolCall] = []
    others: list[OpaquePart] = []
    for place, raw in enumerate(raws):
        call = _read_call(raw, message, place, strictly)
        if isinstance(call, ToolCall):
            calls.append(call)
        else:
            others.append(call)
    return tuple(calls), tuple(others)


def _read_part(raw: Raw, message: int, place: int, strictly: bool) -> Part:
    try:
        wire = _strict_part.decode(raw) if strictly else _part.decode(raw)
    except (DecodeError, RecursionError) as exc:
        return _opaque(raw, f"messages[{message}].content[{place}]", exc, _part_kind)
    if isinstance(wire, _TextWire):
        return TextPart(text=wire.text, raw=raw)
    match wire:
        case _RefusalWire(refusal=text):
            return TextPart(text=text, raw=raw)
        case _ImageWire(image_url=image):
            where = f"messages[{message}].content[{place}].image_url"
            if isinstance(image, str):
                _check_url(image, where)
                return ImagePart(url=image, raw=raw)
            _check_url(image.url, f"{where}.url")
            detail = UNSET if image.detail is None else image.detail
            return ImagePart(url=image.url, detail=detail, raw=raw)
        case _AudioWire(input_audio=audio):
            return AudioPart(data=audio.data, format=audio.format, raw=raw)


def _read_call(raw: Raw, message: int, place: int, strictly: bool) -> ToolCall | OpaquePart:
    try:
        wire = _strict_call.decode(raw) if strictly else _call.decode(raw)
    except (DecodeError, RecursionError) as exc:
        return _opaque(raw, f"messages[{message}].tool_calls[{place}]", exc, _call_kind)
    google = wire.extra_content.google if wire.extra_content else None
    return ToolCall(
        id=wire.id,
        name=wire.function.name,
        arguments=wire.function.arguments,
        signature=google.thought_signature if google else "",
    )


def _opaque(
    raw: Raw,
    where: str,
    why: DecodeError | RecursionError,
    kinds: "msgspec.json.Decoder[_PartKind] | msgspec.json.Decoder[_CallKind]",
) -> OpaquePart:
    """Return a value of unknown type as an opaque part; raise `why` if the type is known."""
    if not isinstance(why, ValidationError):
        raise invalid_request(why, where, ALLOWED) from why
    try:
        kind = kinds.decode(raw).type
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, where, ALLOWED) from exc
    if kind in _KNOWN:
        raise invalid_request(why, where, ALLOWED) from why
    return OpaquePart(type=kind, raw=raw)


def _check_url(url: str, where: str) -> None:
    if not url[:8].lower().startswith(URL_SCHEMES):
        raise InvalidRequest(f"{where} must be an https:, http:, gs: or data: URL", param=where)
