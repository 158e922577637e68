"""Decode content blocks, and turn those that are content into the parts of our messages.

Images and documents become parts in OpenAI's forms, which every backend that reads such content
understands. Blocks that only Anthropic has stay as they are and go to backends of its dialect.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Final, cast

import msgspec
from msgspec import DecodeError, Raw, Struct, UnsetType, ValidationError

from gateway.surfaces.anthropic.wire import (
    ALLOWED,
    KINDS,
    Block,
    DocumentBlock,
    ImageBlock,
    Source,
    TextBlock,
)
from gateway.surfaces.decoding import invalid_request, is_null
from gateway.surfaces.openai.stream_chunks import encode
from schemas.errors import InvalidRequest
from schemas.messages import ImagePart, OpaquePart, Part, TextPart

DIALECT: Final = "anthropic"

Marks = dict[str, Raw]
"""Fields of a block that our schema does not have."""


class _Kind(Struct, frozen=True, kw_only=True):
    type: str


def _lenient(kind: type[Struct]) -> "msgspec.json.Decoder[Block]":
    made = msgspec.defstruct(
        kind.__name__, (), bases=(kind,), frozen=True, kw_only=True, forbid_unknown_fields=False
    )
    return msgspec.json.Decoder(cast("type[Block]", made))


_block: Final[msgspec.json.Decoder[Block]] = msgspec.json.Decoder(Block)
_kind: Final = msgspec.json.Decoder(_Kind)
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_lenient_by_kind: Final = {name: _lenient(kind) for name, kind in KINDS.items()}
_SOURCES: Final = (ImageBlock, DocumentBlock)


def read_block(raw: Raw, where: str) -> tuple[Block | OpaquePart, Marks]:
    """Return the block and its unknown fields; of a type that only Anthropic has, an opaque part.

    where: its path. Raises InvalidRequest for a known type with invalid fields.
    """
    try:
        return _block.decode(raw), {}
    except ValidationError as exc:
        invalid = exc
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, where, ALLOWED) from exc
    try:
        kind = _kind.decode(raw).type
    except (DecodeError, RecursionError) as exc:
        raise invalid_request(exc, where, ALLOWED) from exc
    if kind not in KINDS:
        return _own(kind, raw), {}
    try:
        block = _lenient_by_kind[kind].decode(raw)
    except (DecodeError, RecursionError):
        if KINDS[kind] in _SOURCES and _has_other_source(raw):
            return _own(kind, raw), {}
        raise invalid_request(invalid, where, ALLOWED) from invalid
    known = block.__struct_fields__
    more = {
        name: value
        for name, value in _fields.decode(raw).items()
        if name not in known and name != "type"
    }
    return block, more


def part_of(block: Block | OpaquePart, more: Marks, where: str) -> Part | None:
    """Return a block that is content as a part; `None` for calls, results and reasoning.

    where: its path. Raises InvalidRequest for an invalid source.
    """
    match block:
        case TextBlock():
            marks = with_marks(more, cache_control=block.cache_control, citations=block.citations)
            return TextPart(text=block.text, marks=marks)
        case ImageBlock():
            marks = with_marks(more, cache_control=block.cache_control)
            url = _address(block.source, f"{where}.source")
            return ImagePart(url=url, marks=marks)
        case DocumentBlock():
            return _document(block, more, f"{where}.source")
        case OpaquePart():
            return block
        case _:
            return None


def with_marks(more: Marks, **known: Raw | UnsetType) -> Raw | UnsetType:
    """Return the fields as an object; `UNSET` if there are none."""
    found: Marks = {
        name: raw for name, raw in known.items() if isinstance(raw, Raw) and not is_null(raw)
    }
    found |= more
    return Raw(encode(found)) if found else msgspec.UNSET


def _own(kind: str, raw: Raw) -> OpaquePart:
    return OpaquePart(type=kind, raw=raw, dialect=DIALECT)


def _has_other_source(raw: Raw) -> bool:
    """Return whether the source is of a type that only Anthropic has: a file, or blocks."""
    try:
        source = _fields.decode(raw).get("source", Raw(b"{}"))
        return _kind.decode(source).type in ("file", "content")
    except (DecodeError, RecursionError):
        return False


def _address(source: Source, where: str) -> str:
    """Return the address of what a source contains, a `data:` URI if it contains the bytes."""
    match source.type:
        case "base64":
            if not source.media_type or not source.data:
                field = f"{where}.{'data' if source.media_type else 'media_type'}"
                raise InvalidRequest(f"{field} is required", param=field)
            return f"data:{source.media_type};base64,{source.data}"
        case "url":
            if not source.url[:8].lower().startswith(("https://", "http://")):
                field = f"{where}.url"
                raise InvalidRequest(f"{field} must be an https: or http: URL", param=field)
            return source.url
        case _:
            field = f"{where}.type"
            raise InvalidRequest(f"{field} must be base64 or url", param=field)


def _document(block: DocumentBlock, more: Marks, where: str) -> OpaquePart:
    """Return a document as OpenAI's file part, with Anthropic's fields next to it."""
    source = block.source
    if source.type == "text":
        data = b64encode(source.data.encode()).decode()
        file: Mapping[str, str] = {"file_data": f"data:text/plain;base64,{data}"}
    elif source.type == "url":
        file = {"file_url": _address(source, where)}
    else:
        file = {"file_data": _address(source, where)}
    if block.title:
        file = {**file, "filename": block.title}
    fields: dict[str, object] = {"type": "file", "file": file, **more}
    for name in ("cache_control", "citations"):
        raw: Raw | UnsetType = getattr(block, name)
        if isinstance(raw, Raw) and not is_null(raw):
            fields[name] = raw
    if block.context is not None:
        fields["context"] = block.context
    return OpaquePart(type="file", raw=Raw(encode(fields)))
