"""The Dockerfile as instructions by stage, as far as tests look at it."""

import json
import re
import shlex
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "Dockerfile").read_text("utf-8")


class Instruction(Struct, frozen=True, kw_only=True):
    """options: `--name=value`, in order, such as `--from` or `--mount`. rest: what follows them."""

    name: str
    options: tuple[tuple[str, str], ...]
    rest: str

    @property
    def words(self) -> list[str]:
        """The list of the exec form; otherwise the words."""
        return json.loads(self.rest) if self.rest.startswith("[") else shlex.split(self.rest)


class Stage(Struct, frozen=True, kw_only=True):
    """base: an image, `${ARG}`, or an earlier stage."""

    name: str
    base: str
    own: tuple[Instruction, ...]


def instructions(text: str) -> list[Instruction]:
    """Without comments; continued lines joined."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    found: list[Instruction] = []
    for line in filter(str.strip, joined.splitlines()):
        name, _, rest = line.strip().partition(" ")
        options: list[tuple[str, str]] = []
        while given := re.match(r"\s*--([a-z-]+)=(\S+)", rest):
            options.append((given[1], given[2]))
            rest = rest[given.end() :]
        found.append(Instruction(name=name, options=tuple(options), rest=rest.strip()))
    return found


def stages(text: str = TEXT) -> dict[str, Stage]:
    """By name, in the order of the file."""
    found: dict[str, Stage] = {}
    name = base = ""
    own: list[Instruction] = []
    for one in instructions(text):
        if one.name == "FROM":
            if name:
                found[name] = Stage(name=name, base=base, own=tuple(own))
            base, _, name = one.words
            own = []
        elif name:
            own.append(one)
    return {**found, name: Stage(name=name, base=base, own=tuple(own))}


def inherited(name: str) -> list[Instruction]:
    """The instructions of a stage and before them those of the stages that it is from."""
    known = stages()
    found: list[Instruction] = []
    while name in known:
        found = [*known[name].own, *found]
        name = known[name].base
    return found


def last(name: str, kind: str) -> Instruction:
    """The instruction of this kind that is in effect in a stage."""
    return [one for one in inherited(name) if one.name == kind][-1]
