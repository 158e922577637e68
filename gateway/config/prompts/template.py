"""The language of prompt templates: sections by role, and fields by name.

    You are the assistant of {{ company | Example Ltd }}.
    --- user ---
    Summarise this for {{ reader }}: {{ text }}

- A line `--- system ---`, `--- user ---` or `--- assistant ---` begins a section. What is before
  the first such line is the system section. A backslash before the line makes it text.
- `{{ name }}` is a field, `{{ name | text }}` one with a default for values that are not given.
  One place with a default is enough for all places of the field.
- `{{{{` stands for the characters `{{`. `}}` without a field is text.

There are no conditions, loops or filters: a template is text with gaps, so a value is never read as
a template, and what a version says can be compared line by line.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

SectionRole = Literal["system", "user", "assistant"]

_ROLES: Final[dict[str, SectionRole]] = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
}
_MARKER: Final = re.compile(r"(\\?)-{3,}[ \t]*([A-Za-z]+)[ \t]*-{3,}[ \t]*")
_EXACT: Final = re.compile(r"--- (?:system|user|assistant) ---")
_NEAR: Final = frozenset({*_ROLES, "developer", "tool", "human", "ai", "model"})
FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_FIELD: Final = re.compile(
    r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]{0,63})[ \t]*(?:\|[ \t]*((?:(?!\{\{|\}\}).)*?)[ \t]*)?\}\}"
)
_LITERAL: Final = "{{{{"
_OPEN: Final = "{{"
_NUL: Final = "\0"
_SHOWN: Final = 40


class Gap(Struct, frozen=True):
    """A field's place in a text, by the field's name."""

    name: str


Piece = str | Gap


class Section(Struct, frozen=True, kw_only=True):
    """One message of the template. pieces: texts and gaps, in order."""

    role: SectionRole
    pieces: tuple[Piece, ...]


class Template(Struct, frozen=True, kw_only=True):
    """A text, parsed.

    sections: a system section first, if there is one; then user and assistant in turn.
    fields:   all names, in the order of their first places.
    defaults: by the field's name, of those that have one.
    """

    sections: tuple[Section, ...]
    fields: tuple[str, ...]
    defaults: dict[str, str]

    @property
    def required(self) -> tuple[str, ...]:
        """The fields that need a value."""
        return tuple(name for name in self.fields if name not in self.defaults)

    @property
    def asks(self) -> bool:
        """Whether it ends with a user section, so that it needs no message of the client."""
        return self.sections[-1].role == "user"


class TemplateFault(Struct, frozen=True, kw_only=True):
    """line, column: from 1. what: a sentence without its full stop."""

    line: int
    column: int
    what: str


class InvalidTemplate(ValueError):
    """A text is no template. faults: all of them, in order."""

    def __init__(self, faults: Sequence[TemplateFault]) -> None:
        super().__init__(faults)
        self.faults = tuple(faults)


class _Line(Struct, frozen=True):
    """A line of the file. number, column: of its first character, from 1."""

    number: int
    column: int
    text: str


class _Part(Struct):
    """A section before its fields are read. number: of the line that begins it."""

    role: SectionRole
    number: int
    lines: list[_Line]


class _Reading:
    """What is found while the sections of one text are read."""

    def __init__(self) -> None:
        self.faults: list[TemplateFault] = []
        self.fields: dict[str, str | None] = {}

    def fault(self, line: int, column: int, what: str) -> None:
        self.faults.append(TemplateFault(line=line, column=column, what=what))

    def pieces(self, lines: Sequence[_Line]) -> Iterator[Piece]:
        for place, line in enumerate(lines):
            if place:
                yield "\n"
            yield from self._of_line(line)

    def _of_line(self, line: _Line) -> Iterator[Piece]:
        text, at = line.text, 0
        while (found := text.find(_OPEN, at)) >= 0:
            if found > at:
                yield text[at:found]
            if text.startswith(_LITERAL, found):
                yield _OPEN
                at = found + len(_LITERAL)
                continue
            match = _FIELD.match(text, found)
            if match is None:
                self.fault(line.number, line.column + found, _wrong_field(text[found:]))
                at = found + len(_OPEN)
                continue
            self._note(line, found, match[1], match[2])
            yield Gap(match[1])
            at = match.end()
        if at < len(text):
            yield text[at:]

    def _note(self, line: _Line, at: int, name: str, default: str | None) -> None:
        known = self.fields.setdefault(name, default)
        if default is None or known == default:
            return
        if known is None:
            self.fields[name] = default
            return
        what = (
            f"the field {name} has the default {_shown(known)} before, and {_shown(default)} here; "
            "give one of them"
        )
        self.fault(line.number, line.column + at, what)


def parse_template(text: str) -> Template:
    """Parse a text, whose lines end with `\\n`. Raises InvalidTemplate with all faults."""
    reading = _Reading()
    _check_characters(text, reading)
    parts = _parts(text, reading)
    sections = tuple(
        Section(role=one.role, pieces=_joined(reading.pieces(one.lines))) for one in parts
    )
    _check_order(parts, reading)
    if reading.faults:
        raise InvalidTemplate(sorted(reading.faults, key=lambda one: (one.line, one.column)))
    fields = reading.fields
    return Template(
        sections=sections,
        fields=tuple(fields),
        defaults={name: default for name, default in fields.items() if default is not None},
    )


def _check_characters(text: str, reading: _Reading) -> None:
    """Name the first NUL: no text of a person has one, and PostgreSQL stores none."""
    at = text.find(_NUL)
    if at >= 0:
        before = text[:at]
        line, column = before.count("\n") + 1, at - before.rfind("\n")
        reading.fault(line, column, "a NUL character; if the file is UTF-16, save it as UTF-8")


def _parts(text: str, reading: _Reading) -> list[_Part]:
    """Split a text at its markers, without the blank lines around each section."""
    parts = [_Part("system", 1, [])]
    for number, line in enumerate(text.split("\n"), 1):
        match = _MARKER.fullmatch(line)
        if match is None or match[2].lower() not in _NEAR:
            parts[-1].lines.append(_Line(number, 1, line))
        elif match[1]:
            parts[-1].lines.append(_Line(number, 2, line[1:]))
        elif _EXACT.fullmatch(line):
            parts.append(_Part(_ROLES[match[2]], number, []))
        else:
            reading.fault(
                number,
                1,
                f"{_shown(line)} is nearly a section; write --- system ---, --- user --- or "
                "--- assistant ---, or a backslash before it if it is text",
            )
    for one in parts:
        while one.lines and not one.lines[-1].text.strip():
            one.lines.pop()
        while one.lines and not one.lines[0].text.strip():
            one.lines.pop(0)
    return parts if parts[0].lines else parts[1:]


def _check_order(parts: Sequence[_Part], reading: _Reading) -> None:
    if not parts and not reading.faults:
        reading.fault(1, 1, "the file is empty")
    before: SectionRole = "system"
    for place, one in enumerate(parts):
        if not one.lines:
            reading.fault(one.number, 1, f"the {one.role} section is empty")
        if one.role == "system":
            if place:
                what = "the system section is the first, and there is only one"
                reading.fault(one.number, 1, what)
            continue
        expected = "assistant" if before == "user" else "user"
        if one.role != expected:
            what = f"user and assistant sections take turns: expected --- {expected} --- here"
            reading.fault(one.number, 1, what)
        before = one.role


def _joined(pieces: Iterator[Piece]) -> tuple[Piece, ...]:
    """Return the pieces with neighbouring texts in one."""
    found: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and found and isinstance(last := found[-1], str):
            found[-1] = last + piece
        else:
            found.append(piece)
    return tuple(found)


def _wrong_field(rest: str) -> str:
    end = rest.find("}}")
    shown = _shown(rest[: end + 2] if end >= 0 else rest)
    if end < 0:
        why = "opens a field that does not end on its line"
    else:
        why = "is not a field: its name has letters, digits and _, at most 64, and no digit first"
    return f"{shown} {why}; write {{{{ name }}}}, or {{{{{{{{ for the two characters"


def _shown(text: str) -> str:
    return f'"{text if len(text) <= _SHOWN else text[:_SHOWN] + "…"}"'
