"""Images that a request contains as `data:` URIs, for vendors that need their bytes.

https://www.rfc-editor.org/rfc/rfc2397
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from schemas.errors import InvalidRequest
from schemas.messages import ImagePart

ALIASES: Final[Mapping[str, str]] = {"image/jpg": "image/jpeg"}
"""Media types that clients send but vendors reject -> the registered ones.

https://www.iana.org/assignments/media-types/media-types.xhtml#image
"""


class InlineImage(Struct, frozen=True, kw_only=True):
    """media_type: a registered name, "" if the URI has none. data: base64, as sent."""

    media_type: str
    data: str


def inline_image(image: ImagePart, field: str) -> InlineImage:
    """Parse a `data:` URI. Raises InvalidRequest naming `field` for any other URI."""
    if image.remote:
        raise InvalidRequest(
            f"{field}: this backend does not fetch images; send the image as a data: URI",
            param=field,
        )
    head, comma, data = image.url.partition(",")
    kind, *parameters = head[len("data:") :].split(";")
    if not comma or not data or "base64" not in (one.strip().lower() for one in parameters):
        raise InvalidRequest(
            f"{field}: write the image as data:image/TYPE;base64,DATA", param=field
        )
    return InlineImage(media_type=registered(kind), data=data)


def registered(kind: str) -> str:
    """Return the registered media type, in lower case."""
    name = kind.strip().lower()
    return ALIASES.get(name, name)
