"""Images of this API, which are base64 without a type, as `data:` URIs, and back."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import ImagePart, ToolCall

_STARTS: Final[Mapping[str, str]] = {
    "/9j/": "image/jpeg",
    "R0lG": "image/gif",
    "UklG": "image/webp",
    "iVBO": "image/png",
    "Qk": "image/bmp",
}
"""The beginnings of images in base64."""

_OTHER: Final = "image/png"
_ADDRESS: Final = re.compile(r"(?:data:|https?://)", re.IGNORECASE)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class _Url(Struct, frozen=True, kw_only=True):
    url: str = ""


class _Image(Struct, frozen=True, kw_only=True):
    image_url: _Url | None = None


_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode
_images: Final = msgspec.json.Decoder(tuple[_Image, ...])


def read_images(images: Iterable[str], where: str) -> list[ImagePart]:
    """where: the path of the list. Raises InvalidRequest for what is not base64.

    Some clients send a `data:` URI, or an address, which stay as they are.
    """
    return [ImagePart(url=_url(one, f"{where}[{at}]")) for at, one in enumerate(images)]


def returned(
    content: str, calls: Iterable[ToolCall], images: Iterable[ImagePart], thinking: str
) -> Raw:
    """Return a message that the model wrote, with the images that it made.

    Vendors read these next to the content, in OpenRouter's form (`adapters/generated_images.py`);
    as content, most take images only of the user.
    """
    made = [
        {"id": one.id, "type": "function",
         "function": {"name": one.name, "arguments": one.arguments}}
        for one in calls
    ]  # fmt: skip
    shown = [{"type": "image_url", "image_url": {"url": one.url}} for one in images]
    found: dict[str, object] = {"role": "assistant", "content": content, "images": shown}
    found |= {"tool_calls": made} if made else {}
    found |= {"reasoning_content": thinking} if thinking else {}
    return Raw(_encode(found))


def bare(url: str) -> str:
    """Return the base64 of a `data:` URI; the address itself of any other."""
    return url.partition(",")[2] if url[:5].lower() == "data:" else url


def generated(raw: Raw) -> list[str]:
    """Return the images of an answer, as `adapters/generated_images.py` writes them.

    Nothing for a vendor's field of the same name in another form.
    """
    try:
        found = _images.decode(raw)
    except (DecodeError, RecursionError):
        return []
    return [bare(one.image_url.url) for one in found if one.image_url and one.image_url.url]


def _url(image: str, field: str) -> str:
    if _ADDRESS.match(image):
        return image
    data = "".join(image.split()) if any(mark in image for mark in "\r\n ") else image
    if _BASE64.fullmatch(data) is None:
        raise InvalidRequest(f"{field} must be an image's bytes in base64", param=field)
    kind = next((kind for start, kind in _STARTS.items() if data.startswith(start)), _OTHER)
    return f"data:{kind};base64,{data}"
