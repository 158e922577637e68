"""Images and files that a request contains as `data:` URIs, for vendors that need their bytes.

https://www.rfc-editor.org/rfc/rfc2397
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.messages import ImagePart

ALIASES: Final[Mapping[str, str]] = {"image/jpg": "image/jpeg"}
"""Media types that clients send but vendors reject -> the registered ones.

https://www.iana.org/assignments/media-types/media-types.xhtml#image
"""


_TEXTS: Final = frozenset(
    """
    application/javascript application/json application/sql application/toml application/xml
    application/yaml application/x-javascript application/x-ndjson application/x-sh
    application/x-yaml application/x-python
    """.split()  # noqa: SIM905  eleven quoted strings are harder to read
)
"""Media types of text that do not begin with `text/`, nor end in `+json` or `+xml`."""


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


def is_text(kind: str) -> bool:
    """Return whether files of a media type are text. kind: in lower case, without parameters."""
    return kind in _TEXTS or kind.startswith("text/") or kind.endswith(("+json", "+xml", "+yaml"))
