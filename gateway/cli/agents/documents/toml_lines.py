"""TOML, changed by line: keys at the top and tables with a header of their own.

A value in an inline table, under a dotted key or in a text of several lines is found to be
unchangeable, because the text then does not read as it should.
"""

import json
import re
import tomllib
from collections.abc import Mapping

from strowger_gateway.gateway.cli.agents.documents.document import Path, Unchangeable, Value

_HEADER = re.compile(r"[ \t]*\[\[?[ \t]*(.+?)[ \t]*\]\]?[ \t]*(?:#.*)?$")
_COMMENTED = re.compile(
    r"""[ \t]*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)[ \t]*="""
    r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^"'#])*?([ \t]*\#.*)$"""
)
"""A line with a key and a comment."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


class TomlLines:
    """See FileFormat."""

    def read(self, text: str) -> dict[str, Value]:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as exc:
            raise Unchangeable(f"is not valid TOML: {exc}") from exc

    def put(self, text: str, path: Path, value: Value) -> str:
        names = tuple(map(str, path))
        if isinstance(value, Mapping):
            lines = _lines(text)
            start, end = _table(lines, names)
            block = [_header(names), *(_line(name, one) for name, one in value.items())]
            if start == end:
                return _joined([*_spaced(lines), *block])
            after = lines[end:]
            return _joined([*lines[:start], *block, *([""] if after else []), *after])
        lines = _lines(text)
        start, end = _table(lines, names[:-1])
        if names[:-1] and start == end:
            return _joined([*_spaced(lines), _header(names[:-1]), _line(names[-1], value)])
        for place in range(start, end):
            if _key(lines[place]) == names[-1]:
                match = _COMMENTED.match(lines[place])
                tail = match[1] if match else ""
                return _joined(
                    [*lines[:place], _line(names[-1], value) + tail, *lines[place + 1 :]]
                )
        while end > start and not lines[end - 1].strip():
            end -= 1
        after = lines[end:]
        gap = [""] if after and after[0].strip() else []
        return _joined([*lines[:end], _line(names[-1], value), *gap, *after])

    def drop(self, text: str, path: Path) -> str:
        names = tuple(map(str, path))
        lines = _lines(text)
        start, end = _table(lines, names)
        if start == end:
            start, end = _table(lines, names[:-1])
            return _joined(
                [
                    line
                    for place, line in enumerate(lines)
                    if not (start <= place < end and _key(line) == names[-1])
                ]
            )
        return _joined([*lines[:start], *lines[end:]])


def _lines(text: str) -> list[str]:
    return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []


def _joined(lines: list[str]) -> str:
    text = "\n".join(lines)
    return text + "\n" if text else ""


def _spaced(lines: list[str]) -> list[str]:
    return [*lines, ""] if lines and lines[-1].strip() else lines


def _header(names: tuple[str, ...]) -> str:
    return f"[{'.'.join(map(_quoted, names))}]"


def _quoted(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _line(name: str, value: Value) -> str:
    """JSON's texts, numbers and booleans are TOML's, too."""
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"{_quoted(name)} = {text}"


def _table(lines: list[str], names: tuple[str, ...]) -> tuple[int, int]:
    """Return where a table's lines are, with its header; the top has none. Equal: not there."""
    begins = [place for place, line in enumerate(lines) if _HEADER.match(line)]
    ends = {
        begin: _own_end(lines, begin, end)
        for begin, end in zip(begins, [*begins, len(lines)][1:], strict=True)
    }
    if not names:
        return 0, _own_end(lines, -1, begins[0]) if begins else len(lines)
    for place in begins:
        match = _HEADER.match(lines[place])
        assert match is not None
        if _names(match[1]) == names:
            return place, ends[place]
    return len(lines), len(lines)


def _own_end(lines: list[str], begin: int, end: int) -> int:
    """Return where a table ends, without comments that are above the next one."""
    if end == len(lines):
        return end
    above = end
    while above > begin + 1 and lines[above - 1].lstrip().startswith("#"):
        above -= 1
    return end if not above or lines[above - 1].strip() else above


def _names(header: str) -> tuple[str, ...]:
    """Return the names of a header; none where they cannot be read."""
    found = re.findall(r'\s*("(?:[^"\\]|\\.)*"|\'[^\']*\'|[A-Za-z0-9_-]+)\s*(?:\.|$)', header)
    return tuple(one[1:-1] if one[0] in "\"'" else one for one in found)


def _key(line: str) -> str:
    match = re.match(r"""[ \t]*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)[ \t]*=""", line)
    return match[1].strip("\"'") if match else ""
