"""Read values that are nearly JSON: what a model meant where only one reading is possible.

Accepted beyond JSON: strings in single quotes, line breaks in strings, unknown escapes (`\\d`),
commas before a closing bracket, bare keys, and Python's literals and tuples. A value that does not
end is not completed.
"""

import json
import math
import re

from msgspec import Struct

DEEPEST = 64
"""Brackets within each other."""

_BLANKS = re.compile(r"[\s\ufeff]*")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_$][\w$.\-]*")
_BARE = re.compile(r"[^,{}\[\]<\"]+")
_LITERALS: dict[str, object] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_WINDOWS_PATH = re.compile(r"(?:^|[\s\"'=(])(?:[A-Za-z]:\\|\\\\\w)")
_UNKNOWN_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[^\"'\\/nrtbfu]")


class Malformed(ValueError):
    """The text has no single reading."""


class Loose(Struct, frozen=True, kw_only=True):
    """quote: another quotation mark, without escapes inside. words: strings may be unquoted.
    python: calls and tuples are read."""

    quote: str = ""
    words: bool = False
    python: bool = False


class LooseReader:
    """Reads values from one text. at: characters read."""

    def __init__(self, text: str, loose: Loose, at: int = 0) -> None:
        self._text = text
        self._loose = loose
        self.at = at

    def blanks(self) -> str:
        """Skip blanks; return the next character, "" at the end."""
        found = _BLANKS.match(self._text, self.at)
        self.at = found.end() if found else self.at
        return self._text[self.at : self.at + 1]

    def word(self) -> str:
        """Read a name. Raises Malformed."""
        self.blanks()
        found = _WORD.match(self._text, self.at)
        if found is None:
            raise Malformed(f"a name is missing at {self.at}")
        self.at = found.end()
        return found.group()

    def take(self, character: str) -> bool:
        """Skip blanks and the character, if it follows."""
        if self.blanks() != character:
            return False
        self.at += 1
        return True

    def value(self, depth: int = 0, *, open: int = 0) -> object:
        """Read a value. Raises Malformed.

        open: brackets on the outside whose closing ones may be missing at the end of the text.
        """
        if depth > DEEPEST:
            raise Malformed("nested too deeply")
        first = self.blanks()
        if self._quoted_by_mark():
            return self._marked()
        if first in ('"', "'"):
            return self.string()
        if first == "{":
            return self._object(depth, open)
        if first == "[":
            return self._list("]", depth, open)
        if first == "(" and self._loose.python:
            return self._list(")", depth, 0)
        return self._scalar()

    def string(self) -> str:
        """Read a quoted string. Raises Malformed."""
        quote = self._text[self.at]
        if self._loose.python and self._text.startswith(quote * 3, self.at):
            quote *= 3
        begin = at = self.at + len(quote)
        while True:
            end = self._text.find(quote, at)
            if end < 0:
                raise Malformed("a string does not end")
            escape = end
            while escape > at and self._text[escape - 1] == "\\":
                escape -= 1
            if (end - escape) % 2 == 0:
                break
            at = end + 1
        raw = self._text[begin:end]
        self.at = end + len(quote)
        return _unescaped(raw)

    def _quoted_by_mark(self) -> bool:
        quote = self._loose.quote
        return bool(quote) and self._text.startswith(quote, self.at)

    def _marked(self) -> str:
        begin = self.at + len(self._loose.quote)
        end = self._text.find(self._loose.quote, begin)
        if end < 0:
            raise Malformed("a string does not end")
        self.at = end + len(self._loose.quote)
        return self._text[begin:end]

    def _object(self, depth: int, open: int) -> dict[str, object]:
        self.at += 1
        found: dict[str, object] = {}
        while True:
            first = self.blanks()
            if first == "}":
                self.at += 1
                return found
            if not first and open and found:
                return found
            key = self._key(first)
            if not self.take(":"):
                raise Malformed(f"a colon is missing at {self.at}")
            found[key] = self.value(depth + 1)
            if not self.take(",") and self.blanks() not in ("}", ""):
                raise Malformed(f"a comma is missing at {self.at}")

    def _key(self, first: str) -> str:
        if self._quoted_by_mark():
            return self._marked()
        return self.string() if first in ('"', "'") else self.word()

    def _list(self, close: str, depth: int, open: int) -> list[object]:
        self.at += 1
        found: list[object] = []
        while True:
            first = self.blanks()
            if first == close:
                self.at += 1
                return found
            if not first and open and found:
                return found
            found.append(self.value(depth + 1, open=max(open - 1, 0)))
            if not self.take(",") and self.blanks() not in (close, ""):
                raise Malformed(f"a comma is missing at {self.at}")

    def _scalar(self) -> object:
        if self._loose.words:
            found = _BARE.match(self._text, self.at)
            if found is None:
                raise Malformed(f"a value is missing at {self.at}")
            self.at = found.end()
            return _bare(found.group().strip())
        if found := _NUMBER.match(self._text, self.at):
            self.at = found.end()
            return _number(found.group())
        found = _WORD.match(self._text, self.at)
        if found is None or found.group() not in _LITERALS:
            raise Malformed(f"not a value at {self.at}")
        self.at = found.end()
        return _LITERALS[found.group()]


def loose_value(text: str, loose: Loose, *, open: int = 0) -> object:
    """Read the whole text as one value. Raises Malformed. open: see LooseReader.value."""
    reader = LooseReader(text, loose)
    value = reader.value(open=open)
    if reader.blanks():
        raise Malformed(f"text after the value at {reader.at}")
    return value


def written(value: object) -> str:
    """Return the value as JSON; halves of characters become U+FFFD."""
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _bare(text: str) -> object:
    if text in _LITERALS:
        return _LITERALS[text]
    return _number(text) if _NUMBER.fullmatch(text) else text


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        number = float(text) if len(text) < 400 else math.inf
    if not math.isfinite(number):
        raise Malformed("a number is too large")
    return number


def _unescaped(raw: str) -> str:
    """Resolve escapes; where a path has an unknown one, its backslashes are all meant."""
    if "\\" not in raw:
        return raw
    path = bool(_WINDOWS_PATH.search(raw) and _UNKNOWN_ESCAPE.search(raw))
    pieces: list[str] = []
    at = 0
    while at < len(raw):
        begin = raw.find("\\", at)
        if begin < 0 or begin + 1 >= len(raw):
            pieces.append(raw[at:])
            break
        pieces.append(raw[at:begin])
        character = raw[begin + 1]
        at = begin + 2
        if character in "\"'\\" or (character == "/" and not path):
            pieces.append(character)
        elif character in _ESCAPES and not path:
            pieces.append(_ESCAPES[character])
        elif character == "u" and not path and (found := _HEX.match(raw, at)):
            pieces.append(chr(int(found.group(), 16)))
            at = found.end()
        else:
            pieces.append("\\" + character)
    return "".join(pieces)
