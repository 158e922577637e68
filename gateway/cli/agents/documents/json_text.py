"""JSON with comments and trailing commas (JSONC), as editors and agents read it."""

import json
import re
from typing import Final

from msgspec import Struct

from strowger_gateway.gateway.cli.agents.documents.document import (
    ListItem,
    Path,
    Unchangeable,
    Value,
    is_item,
)

DEEPEST: Final = 100
_SPACE: Final = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR: Final = re.compile(
    r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null'
)
_REST: Final = re.compile(r"(?:[ \t]|/\*[^\n]*?\*/)*(?://[^\n]*)?(?=\r?\n)")
"""What follows on a line: space and comments."""


class JsonNode(Struct, frozen=True, kw_only=True):
    """A value and where it is. members: of an object, by name with the place of the name.

    elements: of a list. Both with `None` for a scalar.
    """

    start: int
    end: int
    value: Value
    members: "tuple[tuple[str, int, JsonNode], ...] | None" = None
    elements: "tuple[JsonNode, ...] | None" = None

    def child(self, step: str | ListItem) -> "JsonNode | None":
        """Return what is at a step; the last of several members of one name, as JSON's readers."""
        if isinstance(step, str):
            named = [node for name, _, node in self.members or () if name == step]
            return named[-1] if named else None
        return next((one for one in self.elements or () if is_item(one.value, step)), None)


class JsonText:
    """See FileFormat."""

    def read(self, text: str) -> dict[str, Value]:
        if _skip(text, 0) == len(text):
            return {}
        value = _parsed(text).value
        if not isinstance(value, dict):
            raise Unchangeable("is not an object")
        return value

    def put(self, text: str, path: Path, value: Value) -> str:
        if _skip(text, 0) == len(text):  # nothing, or comments alone
            text = f"{text}{'' if text[-1:] in ('', chr(10)) else chr(10)}{{}}\n"
        node = _parsed(text)
        for depth, step in enumerate(path):
            child = node.child(step)
            if child is None and node.value is None and depth:
                value = _nested(path[depth:], value)  # null is nothing
                break
            if child is None:
                return _added(text, node, path[depth:], value)
            node = child
        return text[: node.start] + _dump(value, _margin(text, node.start)) + text[node.end :]

    def drop(self, text: str, path: Path) -> str:
        node = _parsed(text)
        for step in path[:-1]:
            child = node.child(step)
            assert child is not None
            node = child
        last = path[-1]
        found = node.child(last)
        assert found is not None
        start = found.start
        if isinstance(last, str):
            start = next(at for _, at, one in node.members or () if one is found)
        return _cut(text, node, start, found.end)


def _parsed(text: str) -> JsonNode:
    node, end = _node(text, _skip(text, 0), DEEPEST)
    if _skip(text, end) != len(text):
        raise _broken(text, end)
    return node


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    assert match is not None
    return match.end()


def _node(text: str, start: int, depth: int) -> tuple[JsonNode, int]:
    first = text[start : start + 1]
    if not depth:
        raise Unchangeable(f"is nested more than {DEEPEST} levels deep")
    if first == "{":
        return _object(text, start, depth)
    if first == "[":
        return _list(text, start, depth)
    match = _SCALAR.match(text, start)
    if match is None:
        raise _broken(text, start)
    try:
        value: Value = json.loads(match[0])
    except ValueError as exc:
        raise _broken(text, start) from exc
    return JsonNode(start=start, end=match.end(), value=value), match.end()


def _object(text: str, start: int, depth: int) -> tuple[JsonNode, int]:
    members: list[tuple[str, int, JsonNode]] = []
    place = _skip(text, start + 1)
    while text[place : place + 1] != "}":
        at = place
        key, place = _node(text, place, depth - 1)
        place = _skip(text, place)
        if not isinstance(key.value, str) or text[place : place + 1] != ":":
            raise _broken(text, place)
        node, place = _node(text, _skip(text, place + 1), depth - 1)
        members.append((key.value, at, node))
        place = _after(text, place, "}")
    value = {name: node.value for name, _, node in members}
    return JsonNode(start=start, end=place + 1, value=value, members=tuple(members)), place + 1


def _list(text: str, start: int, depth: int) -> tuple[JsonNode, int]:
    elements: list[JsonNode] = []
    place = _skip(text, start + 1)
    while text[place : place + 1] != "]":
        node, place = _node(text, place, depth - 1)
        elements.append(node)
        place = _after(text, place, "]")
    value = [node.value for node in elements]
    return JsonNode(start=start, end=place + 1, value=value, elements=tuple(elements)), place + 1


def _after(text: str, place: int, closing: str) -> int:
    """Skip the comma after an element; at the end there may be none."""
    place = _skip(text, place)
    if text[place : place + 1] == ",":
        return _skip(text, place + 1)
    if text[place : place + 1] != closing:
        raise _broken(text, place)
    return place


def _broken(text: str, place: int) -> Unchangeable:
    line = text.count("\n", 0, place) + 1
    return Unchangeable(f"is not valid JSON, line {line}")


def _margin(text: str, place: int) -> str:
    """Return the space with which the line of a place begins."""
    match = re.match(r"[ \t]*", text[text.rfind("\n", 0, place) + 1 : place])
    return match[0] if match else ""


def _dump(value: Value, margin: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + margin)


def _nested(path: Path, value: Value) -> Value:
    for one in reversed(path):
        value = {one: value} if isinstance(one, str) else [value]
    return value


def _added(text: str, node: JsonNode, path: Path, value: Value) -> str:
    step = path[0]
    value = _nested(path[1:], value)
    if isinstance(step, str) and node.members is None:
        raise Unchangeable(f"{step}: the value around it is not an object")
    if isinstance(step, ListItem) and node.elements is None:
        raise Unchangeable(f"{step}: the value around it is not a list")
    children = [one for _, _, one in node.members or ()] or list(node.elements or ())
    outer = _margin(text, node.start)
    own = _first(node)
    inner = outer + "  " if own is None else _margin(text, own)
    name = f"{json.dumps(step, ensure_ascii=False)}: " if isinstance(step, str) else ""
    if not children:
        lines = f"\n{inner}{name}{_dump(value, inner)}\n{outer}"
        kept = text[node.start + 1 : node.end - 1].rstrip()
        return text[: node.start + 1] + kept + lines + text[node.end - 1 :]
    last = children[-1].end
    place = _skip(text, last)
    comma = text[place : place + 1] == ","
    end = place + 1 if comma else last
    apart = "\n" in text[node.start : last] or "\n" in text[end : node.end]
    before = text[:last] + text[last:end] if comma else text[:last] + ","
    if not apart:
        return f"{before} {name}{_dump(value, outer)}{text[end:]}"
    rest_of_line = _REST.match(text, end)
    line_end = rest_of_line.end() if rest_of_line else end
    return f"{before}{text[end:line_end]}\n{inner}{name}{_dump(value, inner)}{text[line_end:]}"


def _first(node: JsonNode) -> int | None:
    if node.members:
        return node.members[0][1]
    return node.elements[0].start if node.elements else None


def _cut(text: str, around: JsonNode, start: int, end: int) -> str:
    """Return the text without a member, its comma, and a line that is empty then."""
    place = _skip(text, end)
    if text[place : place + 1] == ",":
        end = place + 1
    else:
        starts = [at for _, at, _ in around.members or ()] or [
            one.start for one in around.elements or ()
        ]
        if starts[0] != start:
            previous = [
                one.end
                for one in (
                    *(one for _, _, one in around.members or ()),
                    *(around.elements or ()),
                )
                if one.end < start
            ][-1]
            comma = _skip(text, previous)
            text = text[:comma] + " " + text[comma + 1 :]
    line = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", end)
    if stop >= 0 and not text[line:start].strip() and not text[end:stop].strip():
        return text[:line] + text[stop + 1 :]
    return text[:start] + text[end:]
