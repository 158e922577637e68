"""Text for a terminal: what models, clients and vendors wrote must not control it.

A terminal obeys control characters in the text that it shows: they move the cursor, change the
title or write to the clipboard (OSC 52). Only line breaks, tabs and colours pass.
"""

import codecs
import re
import sys
from collections.abc import Iterable
from typing import Final, TextIO

_CONTROL: Final = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
_COLOUR: Final = re.compile(r"(\x1b\[[0-9;]*m)")


def without_controls(text: str) -> str:
    """Remove the control characters of C0 and C1, and DEL, but for line breaks and tabs."""
    return text if text.isprintable() else text.translate(_CONTROL)


def guard_terminal() -> None:
    """Guard standard output and error, each if it is a terminal."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, _Guarded) and stream.isatty():
            setattr(sys, name, _Guarded(stream))


def unguarded(stream: TextIO) -> TextIO:
    """The terminal itself, for what moves the cursor on purpose."""
    return stream.inner if isinstance(stream, _Guarded) else stream


class _Guarded:
    """A text stream that writes no control characters, with all else of the one in it."""

    def __init__(self, inner: TextIO) -> None:
        self.inner = inner
        self.buffer = _GuardedBytes(inner)

    def write(self, text: str) -> int:
        self.inner.write(_guarded(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


class _GuardedBytes:
    """The binary side: UTF-8, which may be split anywhere."""

    def __init__(self, text: TextIO) -> None:
        self._inner = text.buffer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> int:
        self._inner.write(_guarded(self._decoder.decode(data)).encode())
        return len(data)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def _guarded(text: str) -> str:
    if text.isprintable():
        return text
    pieces = _COLOUR.split(text)
    pieces[::2] = [one.translate(_CONTROL) for one in pieces[::2]]
    return "".join(pieces)
