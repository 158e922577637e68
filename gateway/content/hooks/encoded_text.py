"""Read the text of a file that a request carries in base64, and write another one in its place.

A file of text is text: backends read it, and some adapters send it decoded. Hooks therefore see
its text rather than its base64, and what they put in its place is encoded as the file was.
"""

import binascii
import re
from base64 import b64decode, b64encode
from typing import Final, NamedTuple

BARE: Final = frozenset(["file_data"])
"""Fields whose value may be base64 without a `data:` URI around it."""

_uri: Final = re.compile(r"data:([^,;\s]{0,128})((?:;[^,;\s]{0,64}){0,4});base64,", re.IGNORECASE)
_is_media: Final = re.compile(
    r"(?:image/(?!svg\+xml)|audio/|video/|application/(?:pdf|zip|gzip)\Z)", re.IGNORECASE
).match
_is_base64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}\Z").match
_NUL: Final = "\0"


class EncodedText(NamedTuple):
    """The text of a file. head: what precedes its base64 in the field."""

    text: str
    head: str

    def with_text(self, text: str) -> str:
        """Return the field's value with another text."""
        return self.head + b64encode(text.encode()).decode()


def encoded_text(name: str, value: str) -> EncodedText | None:
    """Return the text of a file in a field; `None` for media, and for what is not encoded.

    name: of the field. What is not declared as media is text if its bytes are UTF-8.
    """
    found = _uri.match(value)
    if found is None:
        if name not in BARE or _is_base64(value) is None:
            return None
        head = ""
    elif _is_media(found[1]) is not None:
        return None
    else:
        head = found[0]
    try:
        encoded = value[len(head) :].encode("ascii").translate(_STANDARD, b"\r\n\t ")
        padding = b"=" * (-len(encoded) % 4)
        text = b64decode(encoded + padding, validate=True).decode()
    except (binascii.Error, UnicodeError):
        return None
    return EncodedText(text, head) if text and _NUL not in text else None


_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
