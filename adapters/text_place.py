"""Where the text is in a frame that is nothing but a piece of text."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

_KEY: Final = b'"content"'

read_text: Final = msgspec.json.Decoder(Annotated[str, Meta(min_length=1)]).decode
"""Reads a text, not "", with its quotes. Raises UNREADABLE."""

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError)


class TextPlace(Struct, frozen=True):
    """The bytes around the text's value, with its quotes, and the choice that the text belongs to.

    Another frame with the same bytes around its text has the same meaning with another text.
    """

    before: bytes
    after: bytes
    index: int


def place_of(data: bytes, index: int) -> TextPlace | None:
    """Find the text of a frame that was read as a TextChunk of OpenAI's; `None` if it is uncertain.

    That type has one field for the text, requires it, and allows no unknown fields. So if its name
    occurs once and nothing is escaped, no other key or value can be meant.
    """
    if data.count(_KEY) != 1 or data.find(b"\\") >= 0:
        return None
    at = data.index(_KEY) + len(_KEY)
    while data[at : at + 1] in (b" ", b":"):
        at += 1
    end = data.find(b'"', at + 1)
    if data[at : at + 1] != b'"' or end < 0:
        return None
    return TextPlace(data[: at + 1], data[end:], index)
