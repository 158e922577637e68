"""Encodes a message's content as Anthropic's blocks: text, images, documents, thinking.

Fields next to OpenAI's in a part (`cache_control`, a document's `citations`) are copied to the
block. A part that already is one of Anthropic's blocks is sent unchanged.
https://docs.anthropic.com/en/api/messages
"""

import base64
import binascii
from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.adapters.data_uri import inline_image, is_text, registered
from strowger_gateway.adapters.json_objects import NULL, UNREADABLE
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    Thought,
)

Block = dict[str, object]

NATIVE = frozenset(
    {
        "container_upload",
        "document",
        "image",
        "redacted_thinking",
        "search_result",
        "server_tool_use",
        "thinking",
    }
)
"""Block types that are sent unchanged, like all types that end in `_tool_result`."""

_BASE64 = "must be data:TYPE;base64,DATA"


class _Marks(Struct, frozen=True, kw_only=True):
    """Anthropic's fields of a part, message or tool that OpenAI's dialect does not have."""

    cache_control: Raw = NULL
    citations: Raw = NULL
    context: Raw = NULL
    is_error: bool | None = None


class _File(Struct, frozen=True, kw_only=True):
    """file_data: a `data:` URI, or an https address."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    filename: str | None = None


class _FilePart(Struct, frozen=True, kw_only=True):
    file: _File


_marks = msgspec.json.Decoder(_Marks).decode
_file = msgspec.json.Decoder(_FilePart).decode
_NONE = _Marks()
_NAMES = (b'"cache_control"', b'"citations"', b'"context"', b'"is_error"')


def marks(piece: Message | TextPart | ImagePart | OpaquePart) -> _Marks:
    """Read the marks; none if they are unreadable: only understood values are sent."""
    raw = piece.raw
    if isinstance(raw, UnsetType):
        raw = UNSET if isinstance(piece, OpaquePart) else piece.marks
    if isinstance(raw, UnsetType):
        return _NONE
    text = bytes(raw)
    if not any(name in text for name in _NAMES):
        return _NONE
    try:
        return _marks(raw)
    except UNREADABLE:
        return _NONE


def text_block(text: str, cache: Raw = NULL) -> Block:
    block: Block = {"type": "text", "text": text}
    if cache != NULL:
        block["cache_control"] = cache
    return block


def blocks(content: str | Sequence[Part] | None, field: str, first: int = 0) -> list[Block | Raw]:
    """Encode content. Empty text produces no block.

    field: its path, for errors. first: the index of its first part there.

    Raises InvalidRequest for a part that the API has no block for.
    """
    if not content:
        return []
    if isinstance(content, str):
        return [text_block(content)]
    return [
        _block(part, f"{field}[{place}]")
        for place, part in enumerate(content, first)
        if not (isinstance(part, TextPart) and not part.text)
    ]


def thought_block(thought: Thought) -> Block | None:
    """Encode reasoning; `None` without proof, because Anthropic rejects it."""
    if thought.data:
        return {"type": "redacted_thinking", "data": thought.data}
    if thought.signature:
        return {"type": "thinking", "thinking": thought.text, "signature": thought.signature}
    return None


def _block(part: Part, field: str) -> Block | Raw:
    match part:
        case TextPart():
            return text_block(part.text, marks(part).cache_control)
        case ImagePart():
            return _marked(_image(part, field), part)
        case OpaquePart(type="file"):
            return _marked(_document(part.raw, f"{field}.file"), part)
        case OpaquePart() if (
            part.dialect or part.type in NATIVE or part.type.endswith("_tool_result")
        ):
            return part.raw
        case _:
            raise InvalidRequest(
                f"{field}: this backend reads text, images and documents", param=field
            )


def _marked(block: Block, part: ImagePart | OpaquePart) -> Block:
    found = marks(part)
    if found.cache_control != NULL:
        block["cache_control"] = found.cache_control
    if block["type"] == "document":
        if found.citations != NULL:
            block["citations"] = found.citations
        if found.context != NULL:
            block["context"] = found.context
    return block


def _image(part: ImagePart, field: str) -> Block:
    if part.detail not in (UNSET, "auto"):
        where = f"{field}.image_url.detail"
        raise InvalidRequest(f"{where}: this backend supports only auto; leave it out", param=where)
    if part.remote:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    where = f"{field}.image_url.url"
    image = inline_image(part, where)
    if not image.media_type:
        raise InvalidRequest(f"{where}: {_BASE64}; the type is missing", param=where)
    return {"type": "image", "source": _base64(image.media_type, image.data)}


def _document(raw: Raw, field: str) -> Block:
    """Encode OpenAI's file part: bytes, an address, or a file uploaded to the account."""
    try:
        file = _file(raw).file
    except UNREADABLE as exc:
        raise InvalidRequest(f"{field}: must be an object with file_data", param=field) from exc
    data = file.file_data or file.file_url
    if data:
        where = f"{field}.{'file_data' if file.file_data else 'file_url'}"
        block = _from_data(data, where)
    elif file.file_id:
        block: Block = {"type": "document", "source": {"type": "file", "file_id": file.file_id}}
    else:
        raise InvalidRequest(f"{field}: file_data, file_url or file_id is required", param=field)
    if file.filename and block["type"] == "document":
        block["title"] = file.filename
    return block


def _from_data(data: str, field: str) -> Block:
    if data[:5].lower() != "data:":
        if data[:8].lower() != "https://":
            raise InvalidRequest(f"{field}: {_BASE64}, or an https: address", param=field)
        return {"type": "document", "source": {"type": "url", "url": data}}
    head, comma, encoded = data.partition(",")
    kind, *parameters = [one.strip().lower() for one in head[len("data:") :].split(";")]
    if not comma or "base64" not in parameters:
        raise InvalidRequest(f"{field}: {_BASE64}", param=field)
    if kind.startswith("image/"):
        return {"type": "image", "source": _base64(registered(kind), encoded)}
    if kind == "application/pdf":
        return {"type": "document", "source": _base64(kind, encoded)}
    if is_text(kind):
        text: Block = {"type": "text", "media_type": "text/plain", "data": _text(encoded, field)}
        return {"type": "document", "source": text}
    raise InvalidRequest(
        f"{field}: this backend reads application/pdf, text and images, not {kind or 'no type'}",
        param=field,
    )


def _text(encoded: str, field: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as exc:
        raise InvalidRequest(f"{field}: must be UTF-8 text in base64", param=field) from exc


def _base64(kind: str, data: str) -> Block:
    return {"type": "base64", "media_type": kind, "data": data}
