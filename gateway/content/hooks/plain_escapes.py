r"""Write the characters of JSON text that its escapes name, so that a hook sees words.

`f\u006frbidden` is `forbidden` for the tool that reads the arguments of a call, and models escape
what is not ASCII. The JSON stays the same value: quotes, backslashes, control characters and
halves of surrogate pairs stay escaped.
"""

import re
from typing import Final

_LONGEST: Final = 12
"""Characters of one escape: a surrogate pair."""

_HALF: Final = r"u[dD][89abAB][0-9a-fA-F]{2}"
_escape: Final = re.compile(
    rf"\\(?:{_HALF}\\u[dD][c-fC-F][0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|.)", re.DOTALL
)
_unfinished: Final = re.compile(
    rf"(?:[^\\]|{_escape.pattern})*?(\\(?:{_HALF}(?:\\(?:u[dD]?[c-fC-F]?[0-9a-fA-F]?)?)?"
    r"|u[0-9a-fA-F]{0,3})?)\Z",
    re.DOTALL,
)


def with_plain_escapes(text: str) -> str:
    """Return JSON text, or a part that splits no escape, with the characters of its escapes."""
    return _escape.sub(_plain, text) if "\\" in text else text


class PlainEscapes:
    """The same for text that arrives in pieces: an escape that is split waits for its end."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting = ""

    def add(self, piece: str) -> str:
        """Return what can be examined now."""
        text = self._waiting + piece
        if "\\" not in text:
            return text
        begin = max(0, len(text) - _LONGEST)
        while begin and text[begin - 1] == "\\":
            begin -= 1  # a backslash after another character begins an escape
        found = _unfinished.match(text, begin)
        end = len(text) if found is None else found.start(1)
        self._waiting = text[end:]
        return with_plain_escapes(text[:end])

    def end(self) -> str:
        """Return what still waits: no more comes."""
        rest, self._waiting = self._waiting, ""
        return with_plain_escapes(rest)


def _plain(found: re.Match[str]) -> str:
    escape = found[0]
    if escape == "\\/":
        return "/"
    if escape[1] != "u" or len(escape) < 6:
        return escape
    code = int(escape[2:6], 16)
    if len(escape) == _LONGEST:
        return chr(0x10000 + ((code - 0xD800) << 10) + int(escape[8:], 16) - 0xDC00)
    stays = code < 0x20 or code in (0x22, 0x5C, 0x7F) or 0xD800 <= code <= 0xDFFF
    return escape if stays else chr(code)
