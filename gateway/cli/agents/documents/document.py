"""What all formats of settings files have in common: values at paths, and changes that are proven.

A format changes the text itself, so that comments, order and layout stay. Each change is read again
and compared with the same change of the values; a text that a format cannot change that way is
refused, never written.
"""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Literal, Protocol

from msgspec import Struct

Value = str | int | float | bool | None | Sequence["Value"] | Mapping[str, "Value"]
FileFormatName = Literal["json", "toml", "yaml", "env"]


class ListItem(Struct, frozen=True):
    """The element of a list whose member `key` is `value`."""

    key: str
    value: str

    def __str__(self) -> str:
        return f"[{self.key}={self.value}]"


Path = tuple[str | ListItem, ...]
"""Where a value is, from the root."""


class Unchangeable(Exception):
    """A text cannot be read, or not be changed without losing something. Its text says why."""


class FileFormat(Protocol):
    """How one format reads and changes texts. All raise Unchangeable."""

    def read(self, text: str) -> dict[str, Value]:
        """Return the values of a text; none of an empty one."""
        ...

    def put(self, text: str, path: Path, value: Value) -> str:
        """Return the text with a value, whether there was one or not."""
        ...

    def drop(self, text: str, path: Path) -> str:
        """Return the text without a value that it has."""
        ...


def dotted(path: Path) -> str:
    """Return a path as texts show it."""
    return ".".join(map(str, path)).replace(".[", "[")


def value_at(data: Value, path: Path) -> Value:
    """Return a value; `None` where there is none."""
    for step in path:
        match data:
            case Mapping() if isinstance(step, str):
                data = data.get(step)
            case Sequence() if isinstance(step, ListItem) and not isinstance(data, str):
                data = next((one for one in data if is_item(one, step)), None)
            case _:
                return None
    return data


def is_item(value: Value, item: ListItem) -> bool:
    return isinstance(value, Mapping) and value.get(item.key) == item.value


def changed(form: FileFormat, text: str, path: Path, value: Value) -> str:
    """Return the text with `value` at a path, or without any for `None`. Raises Unchangeable."""
    before = form.read(text)
    if value_at(before, path) == value:
        return text
    after = form.drop(text, path) if value is None else form.put(text, path, value)
    wanted = _without(before, path) if value is None else _with(before, path, value)
    try:
        same = are_same(form.read(after), wanted)
    except Unchangeable:
        same = False
    if not same:
        raise Unchangeable(f"{dotted(path)} is written in a way that cannot be changed in place")
    return after


def _with(data: Value, path: Path, value: Value) -> Value:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        if data is not None and not isinstance(data, Mapping):
            raise Unchangeable(f"{dotted(path)}: the value around it is not an object")
        found = dict(data or {})
        return {**found, step: _with(found.get(step), rest, value)}
    if data is not None and (isinstance(data, str) or not isinstance(data, Sequence)):
        raise Unchangeable(f"{dotted(path)}: the value around it is not a list")
    items = list(data or ())
    for place, one in enumerate(items):
        if is_item(one, step):
            return [*items[:place], _with(one, rest, value), *items[place + 1 :]]
    return [*items, _with({step.key: step.value} if rest else None, rest, value)]


def _without(data: Value, path: Path) -> Value:
    step, rest = path[0], path[1:]
    if isinstance(step, str) and isinstance(data, Mapping):
        if rest:
            return {**data, step: _without(data.get(step), rest)}
        return {name: one for name, one in data.items() if name != step}
    if isinstance(step, ListItem) and isinstance(data, Sequence) and not isinstance(data, str):
        kept = [_without(one, rest) if rest and is_item(one, step) else one for one in data]
        return [one for one in kept if rest or not is_item(one, step)]
    return data


def _pruned(data: Value) -> Value:
    """Without what is empty: whether a table with nothing in it is named makes no difference."""
    if isinstance(data, Mapping):
        found = {name: _pruned(one) for name, one in data.items()}
        return {name: one for name, one in found.items() if one not in (None, {}, [])}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [_pruned(one) for one in data]
    return "nan" if isinstance(data, float) and isnan(data) else data  # nan is never equal


def are_same(one: Value, other: Value) -> bool:
    return _pruned(one) == _pruned(other)


def is_empty(data: Value) -> bool:
    """Whether nothing is set."""
    return _pruned(data) == {}
