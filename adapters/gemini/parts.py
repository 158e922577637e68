"""Encodes a message's content as Gemini's parts: text, and media as bytes or addresses.

https://ai.google.dev/api/caching#Part
"""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Struct

from strowger_gateway.adapters.data_uri import inline_image, registered
from strowger_gateway.adapters.gemini.original_fields import keeps_marks
from strowger_gateway.adapters.json_objects import UNREADABLE, read_object
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import AudioPart, ImagePart, OpaquePart, Part, TextPart

Body = dict[str, object]

FETCHED = ("gs://", "https://generativelanguage.googleapis.com/")
"""Prefixes of addresses that Google fetches itself: Cloud Storage, and its File API."""

VIDEOS = ("https://www.youtube.com/watch?", "https://youtu.be/")
"""https://ai.google.dev/gemini-api/docs/video-understanding#youtube"""

OF_PARTS = frozenset({"mediaResolution", "partMetadata", "videoMetadata"})
"""Google's own members of a part."""

AUDIO = frozenset({"wav", "mp3", "aac", "aiff", "flac", "ogg"})

KINDS: Mapping[str, str] = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "gif": "image/gif",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "mp3": "audio/mp3",
    "wav": "audio/wav",
    "mp4": "video/mp4",
    "webm": "video/webm",
}
"""File extension -> media type."""


class _File(Struct, frozen=True, kw_only=True):
    """Any of the three may be an address."""

    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None


class _FilePart(Struct, frozen=True, kw_only=True):
    file: _File


_read_file = msgspec.json.Decoder(_FilePart).decode


def part_of(part: Part, field: str) -> Body:
    """field: the part's path. Raises InvalidRequest naming it, or its unsupported member."""
    match part:
        case TextPart():
            return keeps_marks({"text": part.text}, part.marks, OF_PARTS)
        case ImagePart():
            return keeps_marks(_image(part, field), part.marks, OF_PARTS)
        case AudioPart():
            if part.format not in AUDIO:
                raise InvalidRequest(
                    f"{field}.input_audio.format: this backend accepts {', '.join(sorted(AUDIO))}",
                    param=f"{field}.input_audio.format",
                )
            return {"inlineData": {"mimeType": f"audio/{part.format}", "data": part.data}}
        case OpaquePart(type="file"):
            return keeps_marks(_file(part, f"{field}.file"), part.raw, OF_PARTS)
        case OpaquePart(dialect="gemini"):
            return {name: raw for name, raw in read_object(part.raw).items() if name != "type"}
        case OpaquePart():
            raise InvalidRequest(
                f"{field}: this backend reads text, images, audio and files", param=field
            )


def _image(image: ImagePart, field: str) -> Body:
    if image.detail not in (UNSET, "auto"):
        raise InvalidRequest(
            f"{field}.image_url.detail: this backend supports only auto; leave it out, or send "
            "mediaResolution",
            param=f"{field}.image_url.detail",
        )
    if image.url.startswith(FETCHED):
        return _held(image.url)
    inline = inline_image(image, f"{field}.image_url.url")
    if not inline.media_type:
        raise InvalidRequest(
            f"{field}.image_url.url: has no media type; send data:image/png;base64,…",
            param=f"{field}.image_url.url",
        )
    return {"inlineData": {"mimeType": inline.media_type, "data": inline.data}}


def _file(part: OpaquePart, field: str) -> Body:
    """Encode OpenAI's file part: its bytes, or the address of a file that Google fetches itself."""
    try:
        file = _read_file(part.raw).file
    except UNREADABLE as exc:
        raise InvalidRequest(f"{field}: must be an object with file_data", param=field) from exc
    name, data = next(
        (
            (name, data)
            for name in ("file_data", "file_url", "file_id")
            if (data := getattr(file, name))
        ),
        ("file_data", ""),
    )
    if data.startswith((*FETCHED, *VIDEOS)):
        return _held(data)
    head, comma, encoded = data.partition(",")
    scheme, _, kind = head.partition(":")
    media_type, *parameters = (one.strip().lower() for one in kind.split(";"))
    if scheme.lower() != "data" or not comma or not media_type or "base64" not in parameters:
        raise InvalidRequest(
            f"{field}.{name}: send the file as data:application/pdf;base64,DATA, or the address of "
            "one in Cloud Storage or Google's File API",
            param=f"{field}.{name}",
        )
    return {"inlineData": {"mimeType": registered(media_type), "data": encoded}}


def _held(url: str) -> Body:
    kind = KINDS.get(url.rpartition(".")[2].lower())
    file: Body = {"mimeType": kind} if kind else {}
    return {"fileData": {**file, "fileUri": url}}
