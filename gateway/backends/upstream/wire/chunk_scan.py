"""Recognise data that is one chunk of a chunked body, as nearly every read of a stream."""

from typing import Final

_TWO_DIGITS: Final = 0xFF + 6
"""Bytes of the largest chunk whose size has two digits, with the size and both line ends."""


def whole_chunk(data: bytes) -> bytes:
    """Return the content of one whole chunk, without extensions; b"" if data may be anything else.

    For data that follows a whole chunk: a parser of the body needs not see it. Sizes with leading
    zeros or capital digits, and those below 16 or from 4 KiB, are left to the parser.
    https://www.rfc-editor.org/rfc/rfc9112#section-7.1
    """
    size = len(data) - 6 if len(data) <= _TWO_DIGITS else len(data) - 7
    head = b"%x\r\n" % size if size > 0 else b""
    body = data[len(head) : -2]
    if len(body) == size and data.startswith(head) and data.endswith(b"\r\n"):
        return body
    return b""
