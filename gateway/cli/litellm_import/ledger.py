"""Keeps which settings of the imported file were translated, and which were not and why."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from strowger_gateway.gateway.config.yaml_document import Tree, scalar

Path = tuple[str | int, ...]


class Listed(NamedTuple):
    """A setting without a translation. remedy: what the operator can do instead."""

    path: str
    reason: str
    remedy: str


class Ledger:
    """Every leaf of a document is translated or listed; the remainder is listed at the end."""

    def __init__(self, document: Tree) -> None:
        self._leaves = tuple(leaves(document))
        self._names: dict[Path, list[str]] = {}
        """The leaves below each path, so that a file takes time in proportion to its length."""
        for leaf in self._leaves:
            for depth in range(len(leaf) + 1):
                self._names.setdefault(leaf[:depth], []).append(shown(leaf))
        self.translated: dict[str, str] = {}
        """Key of config.yaml by path of the input."""
        self._listed: dict[str, Listed] = {}
        self._written: dict[Path, Path] = {}

    def move(self, path: Path, to: Path) -> None:
        """Note that a setting which is used at `path` is written at `to`."""
        self._written[path] = to

    def translate(self, path: Path, to: str) -> None:
        """Note that everything below `path` became the key `to`."""
        for leaf in self._below(path):
            self.translated.setdefault(leaf, to)

    def omit(self, path: Path, reason: str, remedy: str) -> None:
        """Note that nothing below `path` has a translation; a leaf that is noted already stays."""
        for leaf in self._below(path):
            if leaf not in self.translated:
                self._listed.setdefault(leaf, Listed(leaf, reason, remedy))

    def refuse(self, path: Path, reason: str, remedy: str) -> None:
        """Note that nothing below `path` has a translation, even if it was noted as translated."""
        for leaf in self._below(path):
            self.translated.pop(leaf, None)
        self.omit(path, reason, remedy)

    def listed(self) -> tuple[Listed, ...]:
        """Return the settings without a translation, in the order of the input."""
        unknown = ("no equivalent in Strowger", "see docs/configuration.md for related settings")
        return tuple(
            self._listed.get(text, Listed(text, *unknown))
            for text in dict.fromkeys(shown(leaf) for leaf in self._leaves)
            if text not in self.translated
        )

    def _below(self, path: Path) -> Iterable[str]:
        return self._names.get(self._written.get(path, path), ())


def leaves(tree: Tree, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all scalars and of empty lists and mappings."""
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from leaves(value, (*path, key))
    elif isinstance(tree, list) and tree:
        for place, value in enumerate(tree):
            yield from leaves(value, (*path, place))
    else:
        yield path


def shown(path: Path) -> str:
    """Return a path as text on one line, such as `model_list[0].litellm_params.model`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if part.isprintable() else ascii(part)
            text += f".{name}" if text else name
    return text or "(empty document)"


def mapping(tree: Tree | object) -> Mapping[str, Tree]:
    """Return a mapping; an empty one for any other value."""
    return cast("dict[str, Tree]", tree) if isinstance(tree, dict) else {}


def number(tree: Tree | object) -> float | int | None:
    """Return a finite number above 0 or 0, `None` for any other value.

    Text of a number counts, as LiteLLM converts it.
    """
    if isinstance(tree, str):
        tree = scalar(tree)
    if isinstance(tree, bool) or not isinstance(tree, int | float):
        return None
    return tree if 0 <= tree < float("inf") else None
