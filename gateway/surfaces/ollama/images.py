"""Images of this API, which are base64 without a type, as `data:` URIs, and back."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import DecodeError, Raw, Struct

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import ImagePart

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


_images: Final = msgspec.json.Decoder(tuple[_Image, ...])


def read_images(images: Iterable[str], where: str) -> list[ImagePart]:
    """where: the path of the list. Raises InvalidRequest for what is not base64.

    Some clients send a `data:` URI, or an address, which stay as they are.
    """
    return [ImagePart(url=_url(one, f"{where}[{at}]")) for at, one in enumerate(images)]


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
