"""The import graph of the packages, by file and by room, for the rules about them.

A room is a folder that holds modules. A file that lies directly in a folder with rooms in it, such
as gateway/clock.py, is a room of its own, because the folder's other files are not its neighbours.
`python -m tests.imports` writes tests/rooms.toml, and the table of folders in docs/architecture.md,
from what the code imports now.
"""

import ast
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from tools.statements import statements

ROOT = Path(__file__).parent.parent
PACKAGES = ("schemas", "adapters", "local_engine", "gateway")
PREFIX = "strowger_gateway."
ALLOWED = ROOT / "tests" / "rooms.toml"
HOUSE = ROOT / "docs" / "architecture.md"
TABLE_BEGINS = "<!-- folders: written by `python -m tests.imports` -->\n"
TABLE_ENDS = "\n<!-- end of folders -->"

Graph = Mapping[str, set[str]]


class Import(Struct, frozen=True, kw_only=True):
    """One module imports another, at run time or for annotations. Modules by dotted name."""

    module: str
    imported: str
    line: int


@cache
def modules() -> Mapping[str, Path]:
    """Every module by its name in strowger_gateway; a package by that of its `__init__`."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


@cache
def imports() -> tuple[Import, ...]:
    """Imports of modules of the project, except of packages' `__init__` files."""
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
            if imported != name and not imported.endswith("__init__"):
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
def _parents() -> frozenset[str]:
    """Folders that hold modules."""
    return frozenset(name.rpartition(".")[0] for name in modules() if not name.endswith("__init__"))


@cache
def room(module: str) -> str:
    """The room of a module, as a path: `gateway/routing/planning`, `gateway/clock.py`."""
    folder = module.rpartition(".")[0]
    if any(other.startswith(f"{folder}.") for other in _parents()):
        return module.replace(".", "/") + ".py"
    return folder.replace(".", "/")


def by_room() -> Graph:
    graph: dict[str, set[str]] = {}
    for one in imports():
        here, there = room(one.module), room(one.imported)
        graph.setdefault(here, set())
        if here != there:
            graph[here].add(there)
    return graph


def by_file() -> Graph:
    graph: dict[str, set[str]] = {}
    for one in imports():
        graph.setdefault(one.module, set()).add(one.imported)
    return graph


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


def allowed() -> Mapping[str, frozenset[str]]:
    """What each room may import, as tests/rooms.toml lists it."""
    return {name: frozenset(rooms) for name, rooms in tomllib.loads(ALLOWED.read_text()).items()}


def room_table() -> str:
    """The table of folders in docs/architecture.md: what each holds, and what it imports.

    What it holds is the docstring of its `__init__`; the imports are those of its files, by
    folder, where other packages than its own count as one.
    """
    lines = ["| folder | holds | imports |", "|---|---|---|"]
    imported: dict[str, set[str]] = {}
    for one in imports():
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


def write() -> None:
    lines = [
        "# Which rooms each room may import; tests/test_architecture.py holds the code to it.",
        "# A new line is a decision: it must close no cycle, and lead down the house, as",
        "# docs/architecture.md draws it. `python -m tests.imports` writes the current imports.",
        "",
    ]
    for name, rooms in sorted(by_room().items()):
        listed = "".join(f'    "{one}",\n' for one in sorted(rooms))
        lines.append(f'"{name}" = [\n{listed}]\n' if listed else f'"{name}" = []\n')
    ALLOWED.write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    write()
    write_room_table()
