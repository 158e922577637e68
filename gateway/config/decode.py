"""Plain values to frozen Structs, continuing after a fault so that all are found at once.

A wrong value is recorded and replaced by the field's default, or by an empty value if it has
none; later checks skip places that already have a fault.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path as FilePath
from typing import TypeVar, cast

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo

from strowger_gateway.gateway.config.foreign_names import names_a_variable
from strowger_gateway.gateway.config.interpolate import Resolved, Unresolved
from strowger_gateway.gateway.config.mistakes.written_units import hint as written_hint
from strowger_gateway.gateway.config.problems import Found, Path, Problems, nearest
from strowger_gateway.gateway.config.schema.units import GIB, KIB, MIB
from strowger_gateway.gateway.config.type_names import Kind, kind_of
from strowger_gateway.gateway.config.yaml_document import Tree
from strowger_gateway.schemas.secret import Secret
from strowger_gateway.schemas.tensors import Tensor

S = TypeVar("S", bound=Struct)

_SIZE = re.compile(r"(?P<count>[0-9]+(\.[0-9]+)?) ?(?P<unit>[KMG]iB)")
_UNITS = {"KiB": KIB, "MiB": MIB, "GiB": GIB}
_CREDENTIAL = re.compile(r"key|token|secret|passw|auth|credential", re.IGNORECASE)
_MERGE = "; YAML 1.2 has no merge keys; write out the merged keys"
_DID_YOU_MEAN = "did you mean"
_RELATIVE = ("./", "../")


class Decoder:
    """folder: where relative paths start."""

    def __init__(self, folder: FilePath, problems: Problems) -> None:
        self._folder = folder
        self._problems = problems

    def struct(self, tree: Tree, cls: type[S], path: Path) -> S:
        """Return a complete value of `cls`, whatever the faults."""
        if not isinstance(tree, dict):
            self._expected("a mapping", tree, path, hint=_keys_of(cls))
            tree = None
        fields = _fields(cls)
        given = tree if isinstance(tree, dict) else {}
        self._unknown(given, fields, path)
        values: dict[str, object] = {}
        for field in _own(cls):
            kind = kind_of(field.type)
            if "flatten" in kind.extra and kind.struct is not None:
                inner = {name: given[name] for name in _fields(kind.struct) if name in given}
                values[field.name] = self.struct(cast(Tree, inner), kind.struct, path)
            elif field.required and given.get(field.name) is None:
                if tree is not None:
                    self._problems.add((*path, field.name), f"is missing; give {kind}")
                values[field.name] = _fallback(field, kind)
            elif field.name in given and not (given[field.name] is None and kind.container):
                default = _fallback(field, kind)
                at = (*path, field.name)
                values[field.name] = self._value(given[field.name], kind, at, default)
        for field in _path_defaults(cls):
            if field.name not in values:
                values[field.name] = self._placed(field, (*path, field.name))
        build: Callable[..., S] = cls
        return build(**values)

    def _placed(self, field: FieldInfo, path: Path) -> object:
        """Return the default of a field that is a path, or that contains one."""
        kind = kind_of(field.type)
        if kind.struct is not None:
            return self.struct({}, kind.struct, path)
        return str(self._folder / str(field.default))

    def _value(self, tree: Tree, kind: Kind, path: Path, default: object) -> object:
        if tree is None and kind.nullable:
            return None
        if "shorthand" in kind.extra and isinstance(tree, str | Unresolved):
            assert kind.struct is not None
            tree = cast(Tree, {_own(kind.struct)[0].name: tree})
        if kind.struct is not None and not (kind.words and isinstance(tree, str | bool)):
            return self.struct(tree, kind.struct, path)
        if isinstance(tree, Unresolved):
            return default
        if kind.secret:
            return self._secret(tree, kind, path, default)
        if kind.item is not None:
            return self._list(tree, kind, path, default)
        if kind.entry is not None:
            return self._mapping(tree, kind, path, default)
        return self._leaf(tree, kind, path, default)

    def _list(self, tree: Tree, kind: Kind, path: Path, default: object) -> object:
        item = kind_of(kind.item)
        if not isinstance(tree, list):
            return self._expected("a list", tree, path, default, _items_of(item, tree))
        if wrong := _wrong_length(tree, kind, "entries"):
            self._problems.add(path, wrong)
        return tuple(
            self._value(value, item, (*path, index), _empty(item))
            for index, value in enumerate(tree)
        )

    def _mapping(self, tree: Tree, kind: Kind, path: Path, default: object) -> object:
        if not isinstance(tree, dict) or kind.entry is None:
            hint = "; write it as {NAME: VALUE}"
            return self._expected("a mapping", tree, path, default, hint)
        key_kind, value_kind = kind_of(kind.entry[0]), kind_of(kind.entry[1])
        values: dict[object, object] = {}
        for position, (key, value) in enumerate(tree.items()):
            if value_kind.secret and not isinstance(value, str):
                self._hide(key)  # a header without a value may be a credential without its name
                self._problems.add(path, f"entry {position + 1}: expected {value_kind}, in quotes")
                continue
            name = self._leaf(Resolved(key), key_kind, (*path, key), None)
            values[name] = self._value(value, value_kind, (*path, key), _empty(value_kind))
        return values

    def _secret(self, tree: Tree, kind: Kind, path: Path, default: object) -> object:
        self._hide(tree)
        match tree:
            case str() if not isinstance(tree, Resolved) and names_a_variable(tree):
                self._problems.add(path, "looks like the name of a variable; write it as ${NAME}")
                return default
            case str():
                return Secret(str(tree))
            case _:
                self._problems.add(path, f"expected {kind}, in quotes; found {_sort(tree)}")
                return default

    def _leaf(self, tree: Tree, kind: Kind, path: Path, default: object) -> object:
        lax = isinstance(tree, Resolved)
        plain = str(tree) if isinstance(tree, str) else tree
        if isinstance(plain, str) and "size" in kind.extra:
            plain = _bytes(plain)
        try:
            value = msgspec.convert(plain, cast("type[object]", kind.whole), strict=not lax)
        except msgspec.ValidationError:
            words = () if self._problems.many else kind.words
            hint = nearest(plain, words) if isinstance(plain, str) else ""
            hint = hint if _DID_YOU_MEAN in hint else ""
            if not hint and isinstance(plain, str):
                hint = _unit_hint(plain, kind, path)
            if (
                isinstance(plain, str)
                and plain
                and (wrong := _wrong_length(plain, kind, "characters"))
            ):
                self._problems.add(path, wrong)
            else:
                self._problems.add(path, f"expected {kind}, found ", Found(tree), hint)
            return default
        if isinstance(value, float) and not math.isfinite(value):
            return self._expected(str(kind), tree, path, default)
        if isinstance(value, str) and (
            "path" in kind.extra or ("model_path" in kind.extra and value.startswith(_RELATIVE))
        ):
            return str(self._folder / value)
        return value

    def _expected(
        self, what: str, tree: Tree, path: Path, default: object = None, hint: str = ""
    ) -> object:
        """Name the kind of a container, or of a value found in its place, and never show it."""
        if not isinstance(tree, Unresolved):
            shown = hint if isinstance(tree, str | int | float | dict) else ""
            self._problems.add(path, f"expected {what}, found {_sort(tree)}{shown}")
            self._hide_credentials(tree, path)
        return default

    def _unknown(self, given: dict[str, Tree], fields: Mapping[str, FieldInfo], path: Path) -> None:
        for name, value in given.items():
            if name in fields:
                continue
            known = () if self._problems.many else fields
            hint = _MERGE if name == "<<" else nearest(name, known, "known keys:")
            self._problems.add((*path, name), "unknown key", hint)
            if _DID_YOU_MEAN in hint and hint.endswith(_ends(fields)):
                self._hide(value)
            self._hide_credentials(value, (*path, name))

    def _hide(self, tree: Tree) -> None:
        """Mask every text in a place where a credential belongs."""
        match tree:
            case list():
                for item in tree:
                    self._hide(item)
            case dict():
                for key, item in tree.items():
                    self._problems.hide(key)
                    self._hide(item)
            case Resolved():
                self._problems.hide(tree, *tree.parts)
            case str():
                self._problems.hide(tree)
            case bool() | None:
                pass
            case int() | float():
                self._problems.hide(str(tree))

    def _hide_credentials(self, tree: Tree, path: Path) -> None:
        """Mask probable credentials in unknown fields: by interpolation, or by the key's name."""
        if isinstance(tree, Resolved) or (
            path and isinstance(path[-1], str) and _CREDENTIAL.search(path[-1])
        ):
            self._hide(tree)
        elif isinstance(tree, list):
            for item in tree:
                self._hide_credentials(item, path)
        elif isinstance(tree, dict):
            for key, item in tree.items():
                self._hide_credentials(item, (*path, key))


@cache
def _own(cls: type[Struct]) -> tuple[FieldInfo, ...]:
    """The fields that a file can set: tensors come with requests only, others are computed."""
    return tuple(
        field
        for field in msgspec.structs.fields(cls)
        if kind_of(field.type).struct is not Tensor and "resolved" not in kind_of(field.type).extra
    )


@cache
def _fields(cls: type[Struct]) -> Mapping[str, FieldInfo]:
    """Fields by their names in the file, including those of a flattened Struct."""
    fields: dict[str, FieldInfo] = {}
    for field in _own(cls):
        kind = kind_of(field.type)
        if "flatten" in kind.extra and kind.struct is not None:
            fields.update(_fields(kind.struct))
        else:
            fields[field.name] = field
    return fields


@cache
def _path_defaults(cls: type[Struct]) -> tuple[FieldInfo, ...]:
    """The fields whose default is a path, or contains one; both start where given paths do."""
    found: list[FieldInfo] = []
    for field in _own(cls):
        kind = kind_of(field.type)
        default = None if field.required else _fallback(field, kind)
        inner = kind.struct
        if (isinstance(default, str) and default and "path" in kind.extra) or (
            inner is not None
            and isinstance(default, inner)
            and "flatten" not in kind.extra
            and _path_defaults(inner)
        ):
            found.append(field)
    return tuple(found)


def _ends(fields: Mapping[str, FieldInfo]) -> tuple[str, ...]:
    """The possible ends of a hint that names a field with a secret value."""
    return tuple(f'"{name}"?' for name in _credentials(fields))


def _credentials(fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    """The names of fields with secret values."""
    for name, field in fields.items():
        kind = kind_of(field.type)
        if kind.secret or (kind.entry is not None and kind_of(kind.entry[1]).secret):
            yield name


def _fallback(field: FieldInfo, kind: Kind) -> object:
    if field.default is not NODEFAULT:
        return field.default
    if field.default_factory is not NODEFAULT:
        return cast(Callable[[], object], field.default_factory)()
    return _empty(kind)


def _keys_of(cls: type[Struct]) -> str:
    """The end of a sentence: the keys that the mapping may have."""
    return nearest("", _fields(cls), "its keys:")


def _items_of(item: Kind, tree: Tree) -> str:
    """The end of a sentence: how to write the list."""
    if isinstance(tree, str) and item.struct is None:
        return "; put it between [ and ]"
    if item.struct is not None:
        return _keys_of(item.struct).replace("its keys:", "each entry is a mapping with the keys")
    return ""


def _wrong_length(found: str | list[Tree], kind: Kind, what: str) -> str:
    """Return a sentence about the length of a text or a list, "" if it is within the bounds."""
    least, most = kind.lengths
    if len(found) >= least and (most is None or len(found) <= most):
        return ""
    bounds = (
        f"at most {most}" if not least else f"{least} to {most}" if most else f"at least {least}"
    )
    return f"expected {bounds} {what}, found {len(found)}"


def _empty(kind: Kind) -> object:
    """A placeholder for a wrong value; only the checks see it."""
    if kind.nullable:
        return None
    if kind.secret:
        return Secret("")
    if kind.item is not None:
        return ()
    if kind.words:
        return kind.words[0]
    return "" if str in kind.bare else 0


def _unit_hint(text: str, kind: Kind, path: Path) -> str:
    numbers = any(one is int or one is float for one in kind.bare)
    size = "size" in kind.extra
    return written_hint(text, str(path[-1]) if path else "", size=size, number=numbers and not size)


def _bytes(text: str) -> object:
    """Convert a size such as 512MiB to a number; return anything else unchanged."""
    written = _SIZE.fullmatch(text)
    if written is None:
        return text
    return int(float(written["count"]) * _UNITS[written["unit"]])


def _sort(tree: Tree) -> str:
    match tree:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a mapping"
