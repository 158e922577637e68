"""Encodes parts, reasoning and tool calls as blocks of a Converse message.

Images, audio and documents are sent as bytes, never as addresses. A mark for the prompt cache
(`cache_control`, as Anthropic's clients write it) becomes its own block after the marked one.
https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.adapters.data_uri import inline_image, is_text
from strowger_gateway.adapters.json_objects import UNREADABLE, read_object
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    Part,
    TextPart,
    Thought,
    ToolCall,
)

Block = dict[str, object]

IMAGES: Final = ("png", "jpeg", "gif", "webp")
DOCUMENTS: Final[Mapping[str, str]] = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
"""Media types of the documents that Converse accepts -> its formats. Other text is `txt`."""

_CALL_ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_NOT_IN_TITLES = re.compile(r"[^a-zA-Z0-9()\[\]-]+")
_LONGEST_TITLE = 200


class _CacheControl(Struct, frozen=True, kw_only=True):
    type: Literal["ephemeral", "default"]
    ttl: Literal["5m", "1h"] | UnsetType = UNSET


class _Marked(Struct, frozen=True, kw_only=True):
    cache_control: _CacheControl | None = None


class _Result(Struct, frozen=True, kw_only=True):
    is_error: bool | None = None


class _Citations(Struct, frozen=True, kw_only=True):
    enabled: bool


class _FileFields(Struct, frozen=True, kw_only=True):
    file_data: str = ""
    filename: str = ""


class _File(Struct, frozen=True, kw_only=True):
    """citations, context: Anthropic's fields of a document; Converse has the same names."""

    file: _FileFields
    citations: _Citations | None = None
    context: str | None = None


_marked = msgspec.json.Decoder(_Marked).decode
_result = msgspec.json.Decoder(_Result).decode
_file = msgspec.json.Decoder(_File).decode


def content_blocks(part: Part, field: str, names: "Titles") -> list[Block]:
    """Return a part's block, and its cache mark; [] for blank text, which AWS rejects.

    Raises InvalidRequest naming `field` for anything that Converse does not accept.
    """
    match part:
        case TextPart(text=text) if not text.strip():
            return []
        case TextPart():
            block = text_block(part.text)
        case ImagePart():
            block = _image(part, field)
        case AudioPart():
            block: Block = {"audio": {"format": part.format, "source": {"bytes": part.data}}}
        case OpaquePart():
            block = _document(part, field, names)
    return [block, *cache_point(marks_of(part), field)]


def text_block(text: str) -> Block:
    return {"text": text}


def marks_of(piece: Message | Part | FunctionTool) -> Raw | UnsetType:
    """Return the JSON that may contain fields outside our schema."""
    if isinstance(piece, AudioPart | OpaquePart) or isinstance(piece.raw, Raw):
        return piece.raw
    return piece.marks


def cache_point(raw: Raw | UnsetType, field: str) -> list[Block]:
    """Return the block that ends the cached prefix, if `raw` has `cache_control`."""
    if isinstance(raw, UnsetType) or b'"cache_control"' not in bytes(raw):
        return []
    try:
        mark = _marked(raw).cache_control
    except UNREADABLE as exc:
        place = f"{field}.cache_control"
        raise InvalidRequest(
            f'{place}: must be {{"type": "ephemeral"}}, with an optional ttl of 5m or 1h',
            param=place,
        ) from exc
    if mark is None:
        return []
    point: Block = {"type": "default"}
    if mark.ttl is not UNSET:
        point["ttl"] = mark.ttl
    return [{"cachePoint": point}]


def status_of(raw: Raw | UnsetType, field: str) -> str:
    """Return a tool's status if the client sends it (`is_error`), else ""."""
    if isinstance(raw, UnsetType) or b'"is_error"' not in bytes(raw):
        return ""
    try:
        failed = _result(raw).is_error
    except UNREADABLE as exc:
        place = f"{field}.is_error"
        raise InvalidRequest(f"{place}: must be true or false", param=place) from exc
    return "" if failed is None else "error" if failed else "success"


def thought_block(thought: Thought) -> Block | None:
    """Encode reasoning; `None` without proof, which Claude rejects."""
    if thought.data:
        return {"reasoningContent": {"redactedContent": thought.data}}
    if not thought.signature:
        return None
    text: Block = {"text": thought.text, "signature": thought.signature}
    return {"reasoningContent": {"reasoningText": text}}


def call_block(call: ToolCall, field: str) -> Block:
    """Encode a call. Raises InvalidRequest if the arguments are not a JSON object."""
    place = f"{field}.function.arguments"
    try:
        arguments = read_object(call.arguments.strip() or "{}")
    except UNREADABLE as exc:
        raise InvalidRequest(f"{place}: must be a JSON object in a string", param=place) from exc
    return {
        "toolUse": {
            "toolUseId": call_id(call.id),
            "name": tool_name(call.name),
            "input": arguments,
        }
    }


def call_id(id: str) -> str:
    """Return an id that AWS accepts: other vendors' may be too long, or have other characters."""
    return id if _CALL_ID.fullmatch(id) else f"call_{_digest(id)}"


def tool_name(name: str) -> str:
    """Return a name that AWS accepts; `adapters/bedrock/decode.py` restores the client's own."""
    if _NAME.fullmatch(name):
        return name
    return f"{_NOT_IN_NAMES.sub('_', name)[:40]}_{_digest(name)[:16]}"


class Titles:
    """Names for a request's documents: AWS requires unique names of few characters."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, filename: str) -> str:
        stem = filename.rpartition(".")[0] or filename
        title = _NOT_IN_TITLES.sub(" ", stem).strip()[: _LONGEST_TITLE - 8] or "document"
        name, count = title, 1
        while name in self._taken:
            count += 1
            name = f"{title} {count}"
        self._taken.add(name)
        return name


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]


def _image(part: ImagePart, field: str) -> Block:
    if part.detail not in (UNSET, "auto"):
        place = f"{field}.image_url.detail"
        raise InvalidRequest(f"{place}: this backend supports only auto; leave it out", param=place)
    place = f"{field}.image_url.url"
    image = inline_image(part, place)
    kind = image.media_type.removeprefix("image/")
    if kind not in IMAGES:
        raise InvalidRequest(
            f"{place}: this backend accepts images of type {', '.join(IMAGES)}", param=place
        )
    return {"image": {"format": kind, "source": {"bytes": image.data}}}


def _document(part: OpaquePart, field: str, names: Titles) -> Block:
    if part.type != "file":
        raise InvalidRequest(
            f"{field}: this backend reads text, images, audio and files, not a part of type "
            f"{part.type!r}",
            param=field,
        )
    place = f"{field}.file.file_data"
    try:
        wire = _file(part.raw)
    except UNREADABLE as exc:
        raise InvalidRequest(f"{field}: cannot be read as a file: {exc}", param=field) from exc
    file = wire.file
    head, comma, data = file.file_data.partition(",")
    kind, *parameters = head.removeprefix("data:").lower().split(";")
    if not head.startswith("data:") or not comma or not data or "base64" not in parameters:
        raise InvalidRequest(
            f"{place}: this backend needs the file's content; send it as data:TYPE;base64,DATA",
            param=place,
        )
    kind = kind.strip()
    form = DOCUMENTS.get(kind) or ("txt" if is_text(kind) else None)
    if form is None:
        raise InvalidRequest(
            f"{place}: this backend accepts documents of type {', '.join(DOCUMENTS)}", param=place
        )
    document: Block = {
        "format": form,
        "name": names.unique(file.filename),
        "source": {"bytes": data},
    }
    if wire.citations is not None:
        document["citations"] = wire.citations
    if wire.context is not None:
        document["context"] = wire.context
    return {"document": document}
