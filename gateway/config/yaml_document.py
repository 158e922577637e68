"""YAML 1.2 text to plain values: only true and false are booleans, and keys are unique."""

import re

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from strowger_gateway.gateway.config.mistakes.yaml_faults import in_plain_words
from strowger_gateway.gateway.config.problems import Path, Position, Problems

Tree = None | bool | int | float | str | list["Tree"] | dict[str, "Tree"]
"""A document's value. Keys are always text."""

DEEPEST = 32
"""Maximum levels of nested lists and mappings."""

MOST = 100_000
"""Maximum values and keys, with repetitions by aliases: checking them takes seconds."""

LONGEST_NUMBER = 64
"""Characters; a longer scalar stays text."""

_INT = re.compile(r"[-+]?[0-9]+(_[0-9]+)*")
_PREFIXED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(_[0-9]+)*(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Tree] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_OLD_WORDS = {"yes": True, "on": True, "no": False, "off": False}
_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")
_HALVES = re.compile("[\ud800-\udfff]")
_MERGE = "<<"


def parse(text: str, problems: Problems, *, version_1_1: bool = False) -> Tree:
    """Return the document's values; `None` for an empty one or one that cannot be parsed.

    version_1_1: the key `<<` adds the entries of other mappings, as in YAML 1.1
                 (https://yaml.org/type/merge.html), and yes, no, on and off are booleans.
                 Otherwise `<<` is a key as all others, and those words are text.
    The parser stops at its first fault, but reports all duplicate keys. A document that is nested
    deeper than DEEPEST or has more than MOST values is rejected while it is read.
    """
    try:
        node = _composed(text)
        return None if node is None else _Reader(problems, version_1_1).value(node, (), ())
    except _Unbounded as exc:
        problems.add((), str(exc), at=exc.at)
    except yaml.YAMLError as exc:
        at, what = in_plain_words(exc, text.splitlines())
        problems.add((), what, at=at)
    return None


def positions_of(text: str) -> dict[Path, Position]:
    """Return the place of each key and list entry by its path; {} if it cannot be parsed."""
    found: dict[Path, Position] = {}
    try:
        node = _composed(text)
    except (_Unbounded, yaml.YAMLError):
        return found
    todo: list[tuple[Path, Node | None]] = [((), node)]
    for path, one in todo:  # grows on the way
        if len(todo) > MOST:
            break
        if isinstance(one, MappingNode):
            for key, value in one.value:
                place = (*path, str(key.value))
                found[place] = _position(key)
                todo.append((place, value))
        elif isinstance(one, SequenceNode):
            for index, value in enumerate(one.value):
                place = (*path, index)
                found[place] = _position(value)
                todo.append((place, value))
    return found


def lines_of(text: str) -> dict[Path, int]:
    """Return the line of each key and list entry by its path, from 1; {} if it cannot be parsed."""
    return {path: line for path, (line, _) in positions_of(text).items()}


def scalar(text: str) -> Tree:
    """Convert a plain scalar by YAML 1.2's core schema, with underscores between digits."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > LONGEST_NUMBER:
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _PREFIXED.fullmatch(text):
        return int(text, base=0)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


class _Unbounded(Exception):
    """The document is larger or deeper than allowed. at: where, if it is one place."""

    def __init__(self, message: str, at: Position | None = None) -> None:
        super().__init__(message)
        self.at = at


class _Bounded(Composer):
    """PyYAML's composer with limits, because it recurses for each level and has none."""

    _level = 0
    _nodes = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        self._nodes += 1
        if self._level > DEEPEST + 1 and parent is not None:
            raise _Unbounded(f"nested more than {DEEPEST} levels deep", _position(parent))
        if self._nodes > MOST:
            raise _Unbounded(f"has more than {MOST:,} values; split it over several gateways")
        self._level += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._level -= 1


class _PythonLoader(_Bounded, Reader, Scanner, Parser, BaseResolver):
    """PyYAML's own scanner, whose errors name the fault and its place better than libyaml's.

    BaseResolver has none of YAML 1.1's implicit types: `on`, 0777, 1:30 and dates are text.
    """

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)


if yaml.__with_libyaml__:
    from yaml.cyaml import CBaseLoader

    class _FastLoader(_Bounded, CBaseLoader):
        """libyaml's scanner: a fifth of the time."""

        def __init__(self, text: str) -> None:
            CBaseLoader.__init__(self, text)
            Composer.__init__(self)


def _composed(text: str) -> Node | None:
    """Compose by libyaml if PyYAML was built with it.

    What libyaml rejects, Python's scanner reads again: it decides, and its error is reported.
    """
    if yaml.__with_libyaml__:
        try:
            return _FastLoader(text).get_single_node()
        except yaml.YAMLError:
            pass
    return _PythonLoader(text).get_single_node()


class _Reader:
    def __init__(self, problems: Problems, version_1_1: bool) -> None:
        self._problems = problems
        self._version_1_1 = version_1_1
        self._nodes = 0

    def value(self, node: Node, path: Path, inside: tuple[Node, ...]) -> Tree:
        self._nodes += 1
        if self._nodes > MOST:
            raise _Unbounded(
                f"has more than {MOST:,} values, including those repeated by aliases (*…)"
            )
        if node in inside or len(inside) > DEEPEST:
            self._problems.add(path, "nested too deeply, or inside itself", at=_position(node))
            return None
        match node:
            case ScalarNode(value=str(text), style=None | "", tag=tag) if tag in _TAGS:
                if self._version_1_1 and text.lower() in _OLD_WORDS:
                    return _OLD_WORDS[text.lower()]
                return scalar(text)
            case ScalarNode(value=str(text), tag=tag) if tag in _TAGS or tag == "!":
                return self._text(text, node, path)
            case SequenceNode(value=items, tag=tag) if tag in _TAGS:
                return [
                    self.value(item, (*path, index), (*inside, node))
                    for index, item in enumerate(items)
                ]
            case MappingNode(tag=tag) if tag in _TAGS:
                return self._mapping(node, path, (*inside, node))
            case _:
                text = "YAML tags (!…) are not supported; put a text that begins with ! in quotes"
                self._problems.add(path, text, at=_position(node))
                return None

    def _mapping(self, node: MappingNode, path: Path, inside: tuple[Node, ...]) -> dict[str, Tree]:
        seen: dict[str, int] = {}
        values: dict[str, Tree] = {}
        merged: list[Node] = []
        for key, item in node.value:
            if not isinstance(key, ScalarNode):
                self._problems.add(path, "a key must be text", at=_position(key))
                continue
            if self._version_1_1 and key.value == _MERGE and not key.style:
                merged += item.value if isinstance(item, SequenceNode) else [item]
                continue
            name = self._text(str(key.value), key, path)
            if name in seen:
                self._problems.add(
                    (*path, name), f"already given on line {seen[name]}", at=_position(key)
                )
                continue
            seen[name] = _line(key)
            values[name] = self.value(item, (*path, name), inside)
        for item in merged:
            found = self.value(item, path, inside)
            if not isinstance(found, dict):
                self._problems.add(path, "<<: expected a mapping", at=_position(item))
                continue
            values = {**found, **values}  # the entry's own keys win, and then the first mapping's
        return values

    def _text(self, text: str, node: Node, path: Path) -> str:
        """Join a character that was escaped as a surrogate pair, as JSON does."""
        if not _HALVES.search(text):
            return text
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._problems.add(
                path, "contains half of a surrogate pair (\\ud800 …)", at=_position(node)
            )
            return ""


def _line(node: Node) -> int:
    return node.start_mark.line + 1


def _position(node: Node) -> Position:
    return _line(node), node.start_mark.column + 1
