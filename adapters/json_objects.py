"""JSON that is read one level at a time: an object or a list, whose members stay bytes.

What an adapter does not know of an answer is then passed on as it came.
"""

import msgspec
from msgspec import Raw

NULL = Raw(b"null")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised by msgspec for bytes that are not the expected JSON."""

read_object = msgspec.json.Decoder(dict[str, Raw]).decode
read_list = msgspec.json.Decoder(list[Raw]).decode
