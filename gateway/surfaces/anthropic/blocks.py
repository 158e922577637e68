"""Decode content blocks, and turn those that are content into the parts of our messages.

Images and documents become parts in OpenAI's forms, which every backend that reads such content
understands. Blocks that only Anthropic has stay as they are and go to backends of its dialect.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.anthropic.wire import (
    ALLOWED,
    KINDS,
    Block,
    DocumentBlock,
    ImageBlock,
    Source,
    TextBlock,
)
from strowger_gateway.gateway.surfaces.decoding import is_null
from strowger_gateway.gateway.surfaces.marked_objects import Marks, TypedReader, with_marks
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import ImagePart, OpaquePart, Part, TextPart

DIALECT: Final = "anthropic"


class _Kind(Struct, frozen=True, kw_only=True):
    type: str


_reader: Final = TypedReader[Block](Block, KINDS, ALLOWED)
_kind: Final = msgspec.json.Decoder(_Kind)
_fields: Final = msgspec.json.Decoder(dict[str, Raw])
_SOURCES: Final = (ImageBlock, DocumentBlock)


def read_block(raw: Raw, where: str) -> tuple[Block | OpaquePart, Marks]:
    """Return the block and its unknown fields; of a type that only Anthropic has, an opaque part.

    where: its path. Raises InvalidRequest for a known type with invalid fields.
    """
    try:
        found, more = _reader.read(raw, where)
    except InvalidRequest:
        kind = _kind_of(raw)
        if KINDS.get(kind) in _SOURCES and _has_other_source(raw):
            return _own(kind, raw), {}
        raise
    return (_own(found, raw), {}) if isinstance(found, str) else (found, more)


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


def _kind_of(raw: Raw) -> str:
    try:
        return _kind.decode(raw).type
    except (DecodeError, RecursionError):
        return ""


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
