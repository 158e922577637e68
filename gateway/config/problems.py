"""Faults and warnings about one configuration file, written so that no secret shows."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path as FilePath

from msgspec import Struct

from strowger_gateway.gateway.config.foreign_names import suggest
from strowger_gateway.schemas.close_names import close_names
from strowger_gateway.schemas.errors import InvalidConfig

Path = tuple[str | int, ...]

MASK = "***"
SHORTEST_SECRET = 4
"""Characters. A shorter one is masked only as a whole value: as a part it is in too many words."""
Position = tuple[int, int]
"""Line and column in the file, from 1."""

PLACEHOLDERS = frozenset({"anything", "dummy", "empty", "fake-key", "na", "none", "not-needed"})
"""Texts, in lower case, that stand for no key where a client insists on one: no secrets."""
LONGEST_SHOWN = 80
FEW = 12
MOST_SHOWN = 200
"""Problems. Further ones are counted, and get no hints, which take a millisecond each."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


class Found(Struct, frozen=True):
    """A value from the file that a message quotes."""

    value: object


class Problem(Struct, frozen=True):
    """at: where it is in the file; `None`: where its path is."""

    path: Path
    parts: tuple[str | Found, ...]
    at: Position | None = None


class Problems:
    """The faults and warnings found so far, and the secrets that no message may show."""

    def __init__(self, source: str, folder: FilePath | None = None) -> None:
        """folder: where relative paths start; `None`: the working directory."""
        self.source = source
        self.folder = folder or FilePath()
        self._found: list[Problem] = []
        self._ineffective: list[Problem] = []
        self._secrets: set[str] = set()
        self._longest_first: list[str] = []
        self._places: set[Path] = set()
        self._around: set[Path] = set()
        self._find: Callable[[], Mapping[Path, Position]] | None = None
        self._positions: Mapping[Path, Position] | None = None

    def locate(self, find: Callable[[], Mapping[Path, Position]]) -> None:
        """Messages name line and column from now on. find: called once, if there is a message."""
        self._find, self._positions = find, None

    @property
    def many(self) -> bool:
        """True if further problems are not shown."""
        return len(self._found) >= MOST_SHOWN

    def add(self, path: Path, *parts: str | Found, at: Position | None = None) -> None:
        """at: where it is, if that is known better than by the path."""
        self._found.append(Problem(path, parts, at))
        self._places.add(path)
        self._around.update(path[:end] for end in range(len(path) + 1))

    def warn(self, path: Path, *parts: str | Found) -> None:
        """Record a setting that is valid and has no effect: probably a mistake."""
        if not self.at(path):
            self._ineffective.append(Problem(path, parts))

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence per warning; none about places that have a fault."""
        return tuple(dict.fromkeys(map(self._render, self._ineffective)))

    def hide(self, *secrets: str) -> None:
        """Mask these secrets in every message, including messages added earlier."""
        self._secrets.update(
            secret for secret in secrets if secret.strip() and secret.lower() not in PLACEHOLDERS
        )
        self._longest_first.clear()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets that no message may show."""
        return tuple(sorted(self._secrets))

    def under(self, path: Path) -> bool:
        """True if a fault is known at `path` or inside it."""
        return path in self._around

    def at(self, path: Path) -> bool:
        """True if a fault is known at `path` or at something that contains it."""
        return any(path[:end] in self._places for end in range(len(path) + 1))

    def raise_if_any(self) -> None:
        """Raise InvalidConfig with all faults, if there are any."""
        if self._found:
            shown = dict.fromkeys(map(self._render, self._found[:MOST_SHOWN]))
            more = len(self._found) - MOST_SHOWN
            counted = (f"{self.source}: and {more} more problems",) if more > 0 else ()
            raise InvalidConfig((*shown, *counted))

    def _render(self, problem: Problem) -> str:
        text = "".join(
            self._quote(part.value) if isinstance(part, Found) else part for part in problem.parts
        )
        where = self._place(problem.path)
        at = problem.at or self._position(problem.path)
        source = self.source if at is None else f"{self.source}:{at[0]}:{at[1]}"
        return f"{source}: {self._mask(f'{where}: {text}' if where else text)}"

    def _position(self, path: Path) -> Position | None:
        """Where the setting is, or what should contain it; `None` for the whole file."""
        if self._find is None or not path:
            return None
        if self._positions is None:
            self._positions = self._find()
        known = (self._positions.get(path[:end]) for end in range(len(path), 0, -1))
        return next((one for one in known if one is not None), None)

    def _place(self, path: Path) -> str:
        """`models[1].backends[0].provider`; keys with other characters are quoted."""
        place = ""
        for step in path:
            match step:
                case int():
                    place += f"[{step}]"
                case str() if _PLAIN_KEY.fullmatch(step):
                    place += f".{step}" if place else step
                case str():
                    place += f"[{self._quote(step)}]"
        return place

    def _quote(self, value: object) -> str:
        match value:
            case dict():
                return "a mapping"
            case list() | tuple():
                return "a list"
            case None:
                return "nothing"
            case str():
                shown = MASK if value in self._secrets else self._mask(value)
                short = shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}…"
                return json.dumps(short, ensure_ascii=False)
            case _:
                return MASK if str(value) in self._secrets else self._mask(json.dumps(value))

    def _mask(self, text: str) -> str:
        if not self._longest_first:
            self._longest_first = sorted(self._secrets, key=len, reverse=True)
        for secret in self._longest_first:
            if len(secret) < SHORTEST_SECRET:
                break
            text = text.replace(secret, MASK)
        return text


def listed(names: Iterable[str], before_last: str) -> str:
    """`"a", "b" or "c"`."""
    *others, last = [f'"{name}"' for name in names]
    return f"{', '.join(others)} {before_last} {last}" if others else last


def nearest(name: str, known: Iterable[str], lead: str = "available:") -> str:
    """The end of a sentence: `; did you mean "openai"?`, or else the known names after `lead`."""
    names = list(dict.fromkeys(known))
    ours = suggest(name, names)
    close = [ours] if ours else close_names(name, names)
    if close:
        return f'; did you mean "{close[0]}"?'
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    listed = ", ".join(f'"{known}"' for known in names[:FEW])
    return f"; {lead} {listed}{more}" if names else ""
