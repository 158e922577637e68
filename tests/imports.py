"""The import graph of the packages, by file, folder and wing, for the rules about them.

Each folder is a level: its files, and its folders as one node each, may form no cycle. The folders
of `gateway/` are its wings, whose order is in tests/rooms.toml. `python -m tests.imports` writes
the table of folders in docs/architecture.md from what the code imports now.
"""

import ast
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from tools.statements import statements

ROOT = Path(__file__).parent.parent
PACKAGES = ("schemas", "adapters", "local_engine", "gateway")
PREFIX = "strowger_gateway."
ORDER = ROOT / "tests" / "rooms.toml"
HOUSE = ROOT / "docs" / "architecture.md"
TABLE_BEGINS = "<!-- folders: written by `python -m tests.imports` -->\n"
TABLE_ENDS = "\n<!-- end of folders -->"

Graph = Mapping[str, set[str]]


class Import(Struct, frozen=True, kw_only=True):
    """One module imports another, at run time or for annotations.

    module, imported: dotted names without the prefix; a package's own file is its `__init__`.
    """

    module: str
    imported: str
    line: int = 0


@cache
def modules() -> Mapping[str, Path]:
    """Every module by dotted name without the prefix; a package by the name of its `__init__`."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


@cache
def imports() -> tuple[Import, ...]:
    """Imports of modules of the project."""
    return tuple(one for name in modules() for one in _imports(name))


def _imports(name: str) -> Iterator[Import]:
    for node in statements(ast.parse(modules()[name].read_text())):
        match node:
            case ast.Import():
                found = [alias.name for alias in node.names]
            case ast.ImportFrom() if node.module and not node.level:
                found = [f"{node.module}.{alias.name}" for alias in node.names]
            case _:
                continue
        ours = (one.removeprefix(PREFIX) for one in found if one.startswith(PREFIX))
        for imported in filter(None, map(_module, ours)):
            if imported != name:
                yield Import(module=name, imported=imported, line=node.lineno)


def _module(dotted: str) -> str | None:
    """The module that a dotted name belongs to, whether it names it or something in it."""
    while dotted:
        if dotted in modules():
            return dotted
        if f"{dotted}.__init__" in modules():
            return f"{dotted}.__init__"
        dotted = dotted.rpartition(".")[0]
    return None


@cache
def wings() -> tuple[str, ...]:
    """The wings in their order, as tests/rooms.toml lists them: `schemas`, `gateway/config`."""
    return tuple(tomllib.loads(ORDER.read_text())["wings"])


def wing(module: str) -> str:
    """The wing of a module; "" for one that lies in none, such as `gateway.__init__`."""
    parts = module.split(".")
    one = "/".join(parts[:2]) if parts[0] == "gateway" else parts[0]
    return one if one in wings() else ""


def against_the_order(found: Iterable[Import], order: Sequence[str]) -> Iterator[Import]:
    """Imports of a wing that stands after the importer's."""
    places = {name: place for place, name in enumerate(order)}
    for one in found:
        here, there = wing(one.module), wing(one.imported)
        if here and there and places[there] > places[here]:
            yield one


def by_level(found: Iterable[Import]) -> Mapping[str, Graph]:
    """For each folder, which of its files and folders import which."""
    levels: dict[str, dict[str, set[str]]] = {}
    for one in found:
        here, there = one.module.split("."), one.imported.split(".")
        depth = next(place for place, part in enumerate(here) if part != there[place])
        level = levels.setdefault("/".join(here[:depth]) or "strowger_gateway", {})
        level.setdefault(here[depth], set()).add(there[depth])
    return levels


def by_file(found: Iterable[Import]) -> Graph:
    graph: dict[str, set[str]] = {}
    for one in found:
        graph.setdefault(one.module, set()).add(one.imported)
    return graph


def cycles(found: Sequence[Import]) -> list[str]:
    """One cycle of files, and one of each folder that has any: `gateway: http -> fleet -> http`."""
    graphs = {"files": by_file(found), **by_level(found)}
    shown = {name: " -> ".join(cycle(graph)) for name, graph in graphs.items()}
    return [f"{name}: {path}" for name, path in sorted(shown.items()) if path]


def cycle(graph: Graph) -> list[str]:
    """One cycle, as a path that ends where it begins; [] where there is none."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for other in sorted(graph.get(node, ())):
            if found := visit(other, [*path, node]):
                return found
        done.add(node)
        return []

    for node in sorted(graph):
        if found := visit(node, []):
            return found
    return []


def room_table() -> str:
    """The table of folders in docs/architecture.md: what each holds, and what it imports.

    What it holds is the docstring of its `__init__`; the imports are those of its files, by
    folder, where other packages than its own count as one.
    """
    lines = ["| folder | holds | imports |", "|---|---|---|"]
    imported: dict[str, set[str]] = {}
    for one in imports():
        if not one.imported.endswith(".__init__"):
            imported.setdefault(one.module.rpartition(".")[0], set()).add(one.imported)
    for name, path in sorted(modules().items(), key=lambda one: one[0].rpartition(".")[0]):
        if not name.endswith(".__init__"):
            continue
        folder = name.removesuffix(".__init__")
        purpose = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
        found = {_folder_seen_from(folder, one) for one in imported.get(folder, ())}
        listed = ", ".join(f"`{one}`" for one in sorted(found) if one)
        lines.append(f"| `{folder.replace('.', '/')}` | {purpose} | {listed or '-'} |")
    return "\n".join(lines)


def _folder_seen_from(folder: str, module: str) -> str:
    """The folder of an imported module, without the package's name within the package."""
    package, _, rest = module.rpartition(".")[0].partition(".")
    if module.rpartition(".")[0] == folder:
        return ""
    if package != folder.partition(".")[0]:
        return package
    return rest.replace(".", "/") or f"{package}/"


def write_room_table() -> None:
    before, _, rest = HOUSE.read_text().partition(TABLE_BEGINS)
    after = rest.partition(TABLE_ENDS)[2]
    HOUSE.write_text(f"{before}{TABLE_BEGINS}\n{room_table()}\n{TABLE_ENDS}{after}")


if __name__ == "__main__":
    write_room_table()
