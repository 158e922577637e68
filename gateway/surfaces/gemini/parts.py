"""Read the parts of a turn, and turn those that are content into the parts of our messages.

Media become parts in OpenAI's forms, which every backend that reads such content understands. Parts
that only Gemini has stay as they are and go to backends of its dialect.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from strowger_gateway.gateway.surfaces.decoding import UNREADABLE, invalid_request
from strowger_gateway.gateway.surfaces.gemini.proto import ProtoReader, as_list
from strowger_gateway.gateway.surfaces.gemini.wire import (
    ALLOWED,
    BlobWire,
    FileWire,
    PartWire,
)
from strowger_gateway.gateway.surfaces.marked_objects import Marks, with_marks
from strowger_gateway.gateway.surfaces.openai.envelope import encode
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import AudioPart, ImagePart, OpaquePart, Part, TextPart

DIALECT: Final = "gemini"

OF_GOOGLE: Final = (
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
"""Parts of what ran at Google."""

_AUDIO: Final[Mapping[str, str]] = {
    "mpeg": "mp3",
    "mp3": "mp3",
    "wav": "wav",
    "x-wav": "wav",
    "wave": "wav",
    "vnd.wave": "wav",
}
_PARTS: Final = ProtoReader(PartWire, ALLOWED)
_BLOBS: Final = ProtoReader(BlobWire, ALLOWED)
_FILES: Final = ProtoReader(FileWire, ALLOWED)
_raws: Final = msgspec.json.Decoder(list[Raw])


def read_parts(raw: Raw | UnsetType, where: str) -> list[tuple[PartWire, Marks]]:
    """Return the parts, each with its unknown fields. where: the path of the list.

    Raises InvalidRequest.
    """
    if not isinstance(raw, Raw):
        return []
    try:
        raws = _raws.decode(as_list(raw))
    except UNREADABLE as exc:
        raise invalid_request(exc, where, ALLOWED) from exc
    return [_read(one, f"{where}[{at}]") for at, one in enumerate(raws)]


def _read(raw: Raw, where: str) -> tuple[PartWire, Marks]:
    if bytes(memoryview(raw)[:1]) == b'"':
        raw = Raw(b'{"text":%b}' % bytes(raw))
    part, more = _PARTS.read(raw, where)
    found = [name for name, field in _DATA if getattr(part, field)]
    if len(found) > 1:
        told = f"{where} has {' and '.join(found)}, and a part has one of these; send two parts"
        raise InvalidRequest(told, param=where)
    if found and found != ["text"] and part.text is not None:
        return msgspec.structs.replace(part, text=None), more
    return part, more


_DATA: Final = (
    ("text", "text"),
    ("inlineData", "inline_data"),
    ("fileData", "file_data"),
    ("functionCall", "function_call"),
    ("functionResponse", "function_response"),
)
"""Of these a part has one, as at Google. An empty text next to another is none."""


def part_of(part: PartWire, more: Marks, where: str) -> Part | None:
    """Return a part that is content; `None` for calls and their results.

    where: its path. Raises InvalidRequest for invalid media.
    """
    if part.text is not None:
        return TextPart(text=part.text, marks=with_marks(more))
    if isinstance(part.inline_data, Raw):
        return _blob(part.inline_data, more, f"{where}.inlineData")
    if isinstance(part.file_data, Raw):
        return _file(part.file_data, more, f"{where}.fileData")
    if isinstance(part.function_call, Raw) or isinstance(part.function_response, Raw):
        return None
    if not more:
        return TextPart(text="")
    kind = next((name for name in OF_GOOGLE if name in more), next(iter(more)))
    signature = {"thoughtSignature": part.thought_signature} if part.thought_signature else {}
    raw = Raw(encode({"type": kind, **more, **signature}))
    return OpaquePart(type=kind, raw=raw, dialect=DIALECT)


def _blob(raw: Raw, more: Marks, where: str) -> Part:
    blob, others = _BLOBS.read(raw, where)
    kind = (blob.mime_type or "").lower()
    if not kind or not blob.data:
        field = f"{where}.{'data' if kind else 'mimeType'}"
        raise InvalidRequest(f"{field} is required", param=field)
    data = blob.data.translate(_TO_PLAIN)
    family, _, form = kind.partition(";")[0].partition("/")
    if family == "image":
        marks = with_marks(more | others)
        return ImagePart(url=f"data:{kind};base64,{data}", marks=marks)
    if family == "audio" and not more:
        return AudioPart(data=data, format=_AUDIO.get(form, form))
    name = {"filename": blob.display_name} if blob.display_name else {}
    return _opaque_file({"file_data": f"data:{kind};base64,{data}", **name}, more)


_TO_PLAIN: Final = str.maketrans("-_", "+/")
"""Protocol buffers accept both alphabets of base64; other vendors only the plain one."""


def _file(raw: Raw, more: Marks, where: str) -> Part:
    file, _ = _FILES.read(raw, where)
    if not file.file_uri:
        field = f"{where}.fileUri"
        raise InvalidRequest(f"{field} is required", param=field)
    if (file.mime_type or "").startswith("image/"):
        return ImagePart(url=file.file_uri, marks=with_marks(more))
    name = {"filename": file.display_name} if file.display_name else {}
    return _opaque_file({"file_url": file.file_uri, **name}, more)


def _opaque_file(file: Mapping[str, object], more: Marks) -> Part:
    return OpaquePart(type="file", raw=Raw(encode({"type": "file", "file": file, **more})))
