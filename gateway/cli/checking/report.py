"""The messages of `strowger check`: each with its place in the file, as lines or as JSON."""

import re
from typing import Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.config.problems import Path
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.yaml_document import positions_of

_PATH: Final = re.compile(r"[a-z_]+(?:\[[0-9]+\]|\.[A-Za-z0-9_-]+|\[\"[^\"]*\"\])*(?=: )")
_STEP: Final = re.compile(r"\[([0-9]+)\]|\[\"([^\"]*)\"\]|\.?([A-Za-z0-9_-]+)")
_NAMED: Final = re.compile(r"(providers|models|guardrails|experiments) '([^']+)'")
_PLACE: Final = re.compile(r":([1-9][0-9]*):([1-9][0-9]*): ")


class CheckMessage(Struct, frozen=True, kw_only=True):
    """line, column: from 1; `None` for what has no place in the file. path: of the setting, or "".

    text: the whole line, as printed without --json.
    """

    line: int | None
    column: int | None
    path: str
    message: str
    text: str


class CheckReport(Struct, kw_only=True):
    """ok: there are no errors."""

    file: str
    ok: bool = False
    errors: list[CheckMessage] = []
    warnings: list[CheckMessage] = []
    notes: list[CheckMessage] = []

    def as_json(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


def message_of(text: str, file: str) -> CheckMessage:
    """Take a message apart. text: `FILE:LINE:COLUMN: PATH: MESSAGE`, or less of it."""
    rest, line, column = text, None, None
    if text.startswith(file):
        rest = text[len(file) :]
        if place := _PLACE.match(rest):
            line, column = int(place[1]), int(place[2])
            rest = rest[place.end() :]
        else:
            rest = rest.removeprefix(": ")
    found = _PATH.match(rest)
    path = found[0] if found else ""
    message = rest[len(path) + 2 :] if path else rest
    return CheckMessage(line=line, column=column, path=path, message=message, text=text)


def located(text: str, config: Config) -> str:
    """Return a message with the file's name and its place, if it begins with a setting.

    text: as building reports it: `guardrails[0].use: …`, or `models 'chat': …`.
    """
    written = config.written
    if text.startswith(f"{written.file}:"):
        return text
    positions = positions_of(written.text)
    path = _path_in(text, config)
    for end in range(len(path), 0, -1):
        if at := positions.get(path[:end]):
            return f"{written.file}:{at[0]}:{at[1]}: {text}"
    return text if text.startswith("/") else f"{written.file}: {text}"  # it names its own file


def _path_in(text: str, config: Config) -> Path:
    if named := _NAMED.match(text):
        names = [one.name for one in getattr(config, named[1])]
        return (named[1], names.index(named[2])) if named[2] in names else (named[1],)
    found = _PATH.match(text)
    if found is None:
        return ()
    return tuple(
        int(step[1]) if step[1] else step[2] if step[2] is not None else step[3]
        for step in _STEP.finditer(found[0])
    )
