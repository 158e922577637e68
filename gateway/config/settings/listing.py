"""List the settings of a configuration, each with its default and where its value comes from."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path as FilePath
from typing import Final, cast

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec.structs import FieldInfo

from strowger_gateway.gateway.config.changes import Masked, credentials_of, is_credential
from strowger_gateway.gateway.config.interpolate import references_in
from strowger_gateway.gateway.config.problems import Path, Problems
from strowger_gateway.gateway.config.schema.config import Config
from strowger_gateway.gateway.config.settings.setting import Origin, Setting
from strowger_gateway.gateway.config.source_file.written import Written
from strowger_gateway.gateway.config.type_names import Kind, kind_of
from strowger_gateway.gateway.config.yaml_document import Tree, lines_of, parse
from strowger_gateway.schemas.secret import Secret
from strowger_gateway.schemas.tensors import Tensor

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://")
_MASK: Final = "***"
_FILE: Final = "file:"
_ROWS: Final = "rows"
_FROM: Final = "prices.from"


_PRICES_FROM: Final = next(
    one.default for one in msgspec.structs.fields(Config) if one.name == "prices_from"
)


class _Node(Struct, frozen=True, kw_only=True):
    """A place in the file. label: as in Setting.path. given: the file has it. tree: what is there,
    before its references are resolved."""

    path: Path
    label: str
    tree: Tree
    given: bool

    def inside(self, name: str | int, label: str) -> "_Node":
        """Return what is below it; a list that the file has in other length has no entries."""
        match self.tree, name:
            case dict(), str() if name in self.tree:
                return _Node(path=(*self.path, name), label=label, tree=self.tree[name], given=True)
            case list(), int() if name < len(self.tree):
                return _Node(path=(*self.path, name), label=label, tree=self.tree[name], given=True)
            case _:
                return _Node(path=(*self.path, name), label=label, tree=None, given=False)


def settings_of(written: Written, sections: Iterable[str] = ()) -> Iterator[Setting]:
    """Yield all settings, in the order of the documentation; none without a file.

    Fields of requests that the operator leaves to clients are not listed.

    sections: names of those that parts bring, listed as not set if the file does not have them.
    """
    config = written.declared
    if not isinstance(config, Config):
        return
    problems = Problems(written.file, FilePath())
    tree = parse(written.text, problems)
    yield from _Listing(written, config, tree, tuple(sections)).all()


class _Listing:
    def __init__(
        self, written: Written, config: Config, tree: Tree, sections: Sequence[str]
    ) -> None:
        self._written = written
        self._config = config
        self._sections = sections
        self._shown = Masked(credentials_of(config))
        self._root = _Node(path=(), label="", tree=tree, given=True)
        self._lines = lines_of(written.text)
        self._overridden = frozenset(written.overridden)

    def all(self) -> Iterator[Setting]:
        yield from self._struct(self._config, self._root)
        for name in dict.fromkeys((*self._config.sections, *self._sections)):
            node = self._root.inside(name, name)
            found = self._config.sections.get(name)
            if found is None:
                yield self._leaf(node, None, None)
            else:
                yield from self._struct(found, node)

    def _struct(self, value: Struct, node: _Node) -> Iterator[Setting]:
        for field, kind in _fields(type(value)):
            one: object = getattr(value, field.name)
            if kind.struct is Tensor or "resolved" in kind.extra or one is UNSET:
                continue
            if "flatten" in kind.extra and isinstance(one, Struct):
                yield from self._struct(one, node)
                continue
            label = f"{node.label}.{field.name}" if node.label else field.name
            inner = node.inside(field.name, label)
            if field.name == "prices" and value is self._config:
                yield from self._prices(inner)
            else:
                yield from self._value(one, inner, _default(field))

    def _prices(self, node: _Node) -> Iterator[Setting]:
        """`prices` has two forms; see gateway/config/price_source.py."""
        mapping = isinstance(node.tree, dict)
        if mapping:
            source = node.inside("from", _FROM)
            rows = node.inside(_ROWS, node.label)
        else:
            source = _Node(path=(*node.path, "from"), label=_FROM, tree=None, given=False)
            rows = node
        yield self._leaf(source, self._config.prices_from, _PRICES_FROM)
        yield from self._value(self._config.prices, rows, ())

    def _value(self, value: object, node: _Node, default: object) -> Iterator[Setting]:
        if isinstance(value, Struct):
            yield from self._struct(value, node)
        elif entries := _structs(value):
            for place, (one, name) in enumerate(zip(entries, _names(entries), strict=True)):
                yield from self._struct(one, node.inside(place, f"{node.label}[{name}]"))
        elif isinstance(value, Mapping) and (items := cast("Mapping[object, object]", value)):
            for key, one in items.items():
                name = str(key)
                inner = node.inside(name, f"{node.label}.{name}")
                if isinstance(one, Struct):
                    yield from self._struct(one, inner)
                else:
                    secret = Secret("x") if is_credential(name) and one not in (None, "") else one
                    yield self._leaf(inner, secret, None)
        else:
            yield self._leaf(node, cast("object", value), default)

    def _leaf(self, node: _Node, value: object, default: object) -> Setting:
        label = self._shown.text(node.label)
        origin, names = self._origin(node)
        return Setting(
            path=label,
            value=self._text(value),
            # The default of a secret is public.
            default=default.reveal() or None
            if isinstance(default, Secret)
            else self._text(default),
            origin=origin,
            line=self._line(node.path) if node.given else None,
            names=tuple(map(self._shown.text, names)),
        )

    def _origin(self, node: _Node) -> tuple[Origin, tuple[str, ...]]:
        if node.label in self._overridden:
            return "command_line", ()
        if not node.given:
            return "default", ()
        found = dict.fromkeys(_references(node.tree))
        files = tuple(one.removeprefix(_FILE) for one in found if one.startswith(_FILE))
        named = tuple(one.partition(":-")[0] for one in found if not one.startswith(_FILE))
        variables = tuple(name for name in named if self._written.env.get(name))
        if variables:
            return "environment", variables
        return ("file", files) if files else ("config", ())

    def _line(self, path: Path) -> int | None:
        """Return the line of a place, or of what it is in."""
        for end in range(len(path), 0, -1):
            line = self._lines.get(path[:end])
            if line is not None:
                return line
        return None

    def _text(self, value: object) -> str | None:
        shown = self._shown.value(value)
        if isinstance(value, Secret) and shown is not None:
            scheme = _SCHEME.match(value.reveal())
            return f"{scheme[0]}{_MASK}" if scheme else _MASK
        return shown if isinstance(value, str) or value is None else _plain(shown)


@cache
def _fields(cls: type[Struct]) -> Sequence[tuple[FieldInfo, Kind]]:
    """Return the fields of a mapping with their kinds, which take long to find out."""
    return [(one, kind_of(one.type)) for one in msgspec.structs.fields(cls)]


def _plain(shown: str | None) -> str | None:
    """Return a number as people write it: 60 instead of 60.0."""
    return shown[:-2] if shown is not None and re.fullmatch(r"-?\d+\.0", shown) else shown


def _default(field: FieldInfo) -> object:
    """Return the default of a field; `None` for one without."""
    if field.default is not NODEFAULT:
        return field.default
    return {} if field.default_factory is dict else None


def _structs(value: object) -> Sequence[Struct]:
    """Return the entries of a list of mappings; () for everything else."""
    entries = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    found = [one for one in entries if isinstance(one, Struct)]
    return found if len(found) == len(entries) else ()


def _names(value: Sequence[Struct]) -> Sequence[object]:
    """Return the name of each, or its place if names are missing or not unique."""
    names = [getattr(one, "name", None) for one in value]
    named = all(isinstance(one, str) for one in names) and len(set(names)) == len(names)
    return names if named else range(len(names))


def _references(tree: Tree) -> Iterator[str]:
    """Yield what is between `${` and `}` in the texts of a place."""
    match tree:
        case str():
            yield from references_in(tree)
        case list():
            for one in tree:
                yield from _references(one)
        case dict():
            for one in tree.values():
                yield from _references(one)
        case _:
            pass
