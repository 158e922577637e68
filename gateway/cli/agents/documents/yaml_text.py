"""YAML, changed at the places that its reader names. What is added is plain YAML 1.2."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

import yaml
from msgspec import Struct

from strowger_gateway.gateway.cli.agents.documents.document import (
    ListItem,
    Path,
    Unchangeable,
    Value,
    is_item,
    value_at,
)
from strowger_gateway.gateway.cli.agents.documents.yaml_size import broken, composed


class YamlNode(Struct, frozen=True, kw_only=True):
    """A value and where it is. end: without the lines that follow a block.

    members: of a mapping, by name, with the place of the name. elements: of a list. Both with
    `None` for a scalar. flow: written in brackets. null: nothing, or YAML's word for it.
    """

    start: int
    end: int
    column: int
    flow: bool = False
    null: bool = False
    text: str = ""
    members: "tuple[tuple[str, int, YamlNode], ...] | None" = None
    elements: "tuple[YamlNode, ...] | None" = None

    @property
    def children(self) -> "list[YamlNode]":
        return [node for _, _, node in self.members or ()] or list(self.elements or ())

    def child(self, step: str | ListItem) -> "YamlNode | None":
        if isinstance(step, str):
            return next((node for name, _, node in self.members or () if name == step), None)
        for one in self.elements or ():
            scalars = {name: node.text for name, _, node in one.members or ()}
            if is_item(scalars, step):
                return one
        return None


class YamlText:
    """See FileFormat."""

    def read(self, text: str) -> dict[str, Value]:
        composed(text)
        try:
            found: object = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as exc:
            raise broken(exc) from exc
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise Unchangeable("is not a mapping")
        return {str(name): _plain(one) for name, one in cast("dict[object, object]", found).items()}

    def put(self, text: str, path: Path, value: Value) -> str:
        node = _root(text)
        if node is None:
            gap = "" if not text or text.endswith("\n") else "\n"
            return f"{text}{gap}{_block(_nested(path, value), 0)}\n"
        for depth, step in enumerate(path):
            child = node.child(step)
            if child is None:
                return _added(text, node, path[depth:], value)
            node = child
        if node.children and not node.flow and value and not isinstance(value, str | int | float):
            return text[: node.start] + _block(value, node.column) + text[node.end :]
        before = text[: node.start]
        if node.children and not node.flow and before.rstrip().endswith(":"):
            before = before.rstrip()
        elif node.children and not node.flow:
            before += "  "  # further in than its key, which comments separate from it
        gap = " " if before.endswith((":", "-")) else ""
        return before + gap + _flow(value) + text[node.end :]

    def drop(self, text: str, path: Path) -> str:
        node = _root(text)
        found = None
        for step in path:
            node = node if found is None else found
            found = None if node is None else node.child(step)
        assert node is not None
        assert found is not None
        if node.flow:
            return self.put(text, path[:-1], _rest(value_at(self.read(text), path[:-1]), path[-1]))
        if len(node.children) == 1:
            rest: Value = {} if isinstance(path[-1], str) else []
            return self.put(text, path[:-1], rest) if path[:-1] else ""
        begin = next((at for _, at, one in node.members or () if one is found), found.start)
        end = text.find("\n", found.end)
        start = text.rfind("\n", 0, begin) + 1
        return text[:start] + ("" if end < 0 else text[end + 1 :])


def _plain(data: object) -> Value:
    """Return what JSON lacks, such as dates, as text."""
    if isinstance(data, dict):
        found = cast("dict[object, object]", data)
        return {str(name): _plain(one) for name, one in found.items()}
    if isinstance(data, list):
        return [_plain(one) for one in cast("list[object]", data)]
    return data if isinstance(data, str | int | float | bool | None) else str(data)


def _root(text: str) -> YamlNode | None:
    found = composed(text)
    return None if found is None else _node(text, found)


def _node(text: str, node: yaml.Node) -> YamlNode:
    start, end, column = node.start_mark.index, node.end_mark.index, node.start_mark.column
    if isinstance(node, yaml.MappingNode):
        pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
        members = tuple(
            (str(key.value), key.start_mark.index, _node(text, one)) for key, one in pairs
        )
        flow = text[start : start + 1] == "{"
        ends = members[-1][2].end if members and not flow else end
        return YamlNode(start=start, end=ends, column=column, flow=flow, members=members)
    if isinstance(node, yaml.SequenceNode):
        elements = tuple(_node(text, one) for one in cast("list[yaml.Node]", node.value))
        flow = text[start : start + 1] == "["
        ends = elements[-1].end if elements and not flow else end
        return YamlNode(start=start, end=ends, column=column, flow=flow, elements=elements)
    if text[start : start + 1] in "|>":
        end = start + len(text[start:end].rstrip("\n"))
    null = node.tag == "tag:yaml.org,2002:null"
    return YamlNode(start=start, end=end, column=column, null=null, text=str(node.value))


def _rest(around: Value, last: str | ListItem) -> Value:
    """Return what is in brackets without one of it."""
    if isinstance(around, Mapping):
        return {name: one for name, one in around.items() if name != last}
    items = around if isinstance(around, Sequence) and not isinstance(around, str) else ()
    return [one for one in items if not (isinstance(last, ListItem) and is_item(one, last))]


def _nested(path: Path, value: Value) -> Value:
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [value]
    return value


def _added(text: str, node: YamlNode, path: Path, value: Value) -> str:
    step = path[0]
    value = _nested(path[1:], value)
    around = node.members if isinstance(step, str) else node.elements
    if around is None and not node.null:
        raise Unchangeable(f"{step}: the value around it is of another kind")
    entry: Value = {step: value} if isinstance(step, str) else [value]
    if not around:
        gap = " " if node.start and text[node.start - 1] in ":-" else ""
        return text[: node.start] + gap + _flow(entry) + text[node.end :]
    end = node.children[-1].end
    if node.flow:
        return f"{text[:end]}, {_flow(entry)[1:-1]}{text[end:]}"
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    lines = _block(entry, node.column)
    return f"{text[:line_end]}\n{' ' * node.column}{lines}{text[line_end:]}"


def _flow(value: Value) -> str:
    """Return one line: JSON is YAML."""
    return json.dumps(value, ensure_ascii=False)


def _block(value: Value | Sequence[Value] | Mapping[str, Value], column: int) -> str:
    """Return lines whose first begins at a column."""
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000).rstrip("\n")
    return text.replace("\n", "\n" + " " * column)
