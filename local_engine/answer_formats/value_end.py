"""Find the end of a value in JSON, or in a notation like it, that arrives in pieces."""

import re

from msgspec import Struct


class Notation(Struct, frozen=True, kw_only=True):
    """outside: characters between strings and brackets. quotes: strings begin and end with one of
    these. python: strings can have three quotes, and brackets can be round."""

    outside: re.Pattern[str]
    quotes: tuple[str, ...] = ('"', "'")
    python: bool = False


JSON = Notation(outside=re.compile(r"[\w\s,:.+\-]*"))
PYTHON = Notation(outside=re.compile(r"[\w\s,:.+\-=]*"), python=True)

_BEFORE_A_STRING = "{[(:,="
_LONGEST_QUOTE = 16
"""Characters, and more than three of a short one."""


def keyed(quote: str) -> Notation:
    """Return the notation with bare keys and words, and strings between two `quote`."""
    return Notation(outside=re.compile(r"[^<\"{}\[\]]*"), quotes=(quote, '"'))


class ValueEnd:
    """Finds the end of a bracketed value in a text that grows.

    at: characters read. done: the value ends there. wrong: what follows cannot be part of it.
    """

    def __init__(self, notation: Notation, start: int = 0) -> None:
        self._notation = notation
        self._depth = 0
        self._quote = ""
        self._before = ""
        self.at = start
        self.done = False
        self.wrong = False

    def advance(self, text: str, *, last: bool = False) -> None:
        """text: the whole text so far. last: nothing follows."""
        while self.at < len(text) and not self.done and not self.wrong:
            moved = self._inside(text) if self._quote else self._outside(text, last=last)
            if not moved:
                return

    def _inside(self, text: str) -> bool:
        """Read a string. Each step returns False if more of the text is needed."""
        quote = self._quote
        if len(quote) > 1 and quote[0] not in "\"'":
            end = text.find(quote, self.at)
            self.at = end + len(quote) if end >= 0 else max(self.at, len(text) - len(quote) + 1)
            self._quote = quote if end < 0 else ""
            return end >= 0
        found = _STRING_STOPS[quote[0]].search(text, self.at)
        if found is None:
            self.at = len(text)
            return False
        self.at = found.start()
        if found.group() == "\\":
            if self.at + 1 >= len(text):
                return False
            self.at += 2
            return True
        rest = text[self.at : self.at + len(quote)]
        if rest == quote:
            self.at += len(quote)
            self._quote = ""
            return True
        if self.at + len(rest) == len(text) and quote.startswith(rest):
            return False
        self.at += 1
        return True

    def _outside(self, text: str, *, last: bool) -> bool:
        found = self._notation.outside.match(text, self.at)
        end = found.end() if found else self.at
        if shown := text[self.at : end].strip():
            self._before = shown[-1]
        self.at = end
        if end >= len(text):
            return False
        character = text[end]
        if character in "{[" or (character == "(" and self._notation.python):
            self._depth += 1
        elif character in "}]" or (character == ")" and self._notation.python):
            self._depth -= 1
            self.done = self._depth <= 0
        else:
            return self._begin(text, last=last)
        self._before = character
        self.at += 1
        return True

    def _begin(self, text: str, *, last: bool) -> bool:
        """Begin a string; anything else is wrong."""
        rest = text[self.at : self.at + _LONGEST_QUOTE]
        quote = next((one for one in self._notation.quotes if rest.startswith(one)), "")
        if not quote:
            partial = any(one.startswith(rest) for one in self._notation.quotes)
            if partial and not last:
                return False
        elif quote == "'" and self._before not in _BEFORE_A_STRING:
            quote = ""
        elif self._notation.python:
            if rest.startswith(quote * 3):
                quote *= 3
            elif rest in (quote, quote * 2) and not last:
                return False
        if not quote:
            self.wrong = True
            return False
        self._quote = quote
        self._before = quote
        self.at += len(quote)
        return True


_STRING_STOPS = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
