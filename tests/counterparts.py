"""Where the tests of a file are, by the map in CONTRIBUTING.md, and what breaks the map.

The tests of a folder of the code are in the folder of the same path under tests/, or, where there
is none, in that of the nearest folder above. Other folders of tests are rows of a table in
CONTRIBUTING.md. `python -m tests.counterparts FILE …` prints where the tests of a file are, and
which ones import it.
"""

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

from tests.imports import PACKAGES, PREFIX, ROOT, wings
from tools.statements import statements

GUIDE = ROOT / "CONTRIBUTING.md"
TABLE = re.compile(r"^\| folder of tests \|.*\n\|.*\n((?:\|.*\n)+)", re.MULTILINE)
ROW = re.compile(r"^\| `(tests/[^`]+)` \| (.+) \|$", re.MULTILINE)


@cache
def python_files() -> tuple[str, ...]:
    """Every Python file of the packages and of tests/, by its path in the repository."""
    return tuple(
        str(path.relative_to(ROOT))
        for top in (*PACKAGES, "tests")
        for path in sorted((ROOT / top).rglob("*.py"))
    )


@cache
def folders() -> frozenset[str]:
    """Every folder of the repository that may have a counterpart in tests/."""
    files = (
        path.relative_to(ROOT)
        for top in (*PACKAGES, "benchmarks", "deploy", "tools")
        for path in (ROOT / top).rglob("*")
        if path.suffix != ".pyc" and path.is_file()
    )
    return frozenset(str(folder) for file in files for folder in file.parents)


@cache
def code_files() -> tuple[str, ...]:
    return tuple(
        file
        for file in python_files()
        if not file.startswith("tests/") and not file.endswith("/__init__.py")
    )


@cache
def files_with_tests() -> tuple[str, ...]:
    return tuple(
        file
        for file in python_files()
        if file.startswith("tests/") and PurePosixPath(file).name.startswith("test_")
    )


def purposes(guide: str) -> Mapping[str, str]:
    """What the folders of tests are for that have no counterpart, as CONTRIBUTING.md lists them."""
    table = TABLE.search(guide)
    return dict(ROW.findall(table[1])) if table else {}


def folder_of(file: str) -> str:
    return file.rpartition("/")[0]


def folders_of(tests: Iterable[str]) -> frozenset[str]:
    """The folders that have test files, or folders with test files."""
    return frozenset(str(folder) for file in tests for folder in PurePosixPath(file).parents)


def place_of_tests(code: str, folders: Collection[str]) -> str:
    """The folder that has the tests of a file of the code.

    folders: those with tests. Returns "tests" where no folder above the file has any.
    """
    return next(
        counterpart
        for folder in PurePosixPath(code).parents
        if (counterpart := f"tests/{folder}".removesuffix("/.")) in folders
    )


def without_tests(code: Iterable[str], folders: Collection[str]) -> Iterator[str]:
    """Files of the code whose nearest folder of tests lies above that of their wing."""
    ends = tuple(f"{wing}/" for wing in wings())
    for file in code:
        if not f"{place_of_tests(file, folders).removeprefix('tests/')}/".startswith(ends):
            yield file


def unexplained(
    tests: Collection[str], folders: Collection[str], listed: Collection[str]
) -> Iterator[str]:
    """Files below tests/ in a folder that is neither at a folder's path nor in a listed one.

    tests: all Python files below tests/. folders: those of the repository outside tests/.
    """
    for file in tests:
        folder = folder_of(file)
        known = folder == "tests" or folder.removeprefix("tests/") in folders
        if not known and not f"{folder}/".startswith(tuple(f"{one}/" for one in listed)):
            yield file


def superfluous(
    tests: Collection[str], folders: Collection[str], listed: Collection[str]
) -> Iterator[str]:
    """Listed folders that have no Python file, or have a counterpart."""
    for one in listed:
        if one.removeprefix("tests/") in folders or not any(
            file.startswith(f"{one}/") for file in tests
        ):
            yield one


def named_after(test: str, code: Iterable[str]) -> list[str]:
    """The files of the code whose name a test file has: `test_planner.py` that of `planner.py`."""
    name = f"/{PurePosixPath(test).name.removeprefix('test_')}"
    return [file for file in code if file.endswith(name)]


def elsewhere(test: str, code: Collection[str], folders: Collection[str]) -> bool:
    """Whether a test file is outside the folders that have the tests of `code`, and those below."""
    places = tuple(f"{place_of_tests(file, folders)}/" for file in code)
    return bool(places) and not test.startswith(places)


def imported(text: str) -> set[str]:
    """The files of the code that a module's text may import, by path; also within functions."""
    found: set[str] = set()
    for node in statements(ast.parse(text)):
        match node:
            case ast.Import():
                found.update(alias.name for alias in node.names)
            case ast.ImportFrom() if node.module:
                found.add(node.module)
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
            case _:
                pass
    return {
        f"{name.removeprefix(PREFIX).replace('.', '/')}.py"
        for name in found
        if name.startswith(PREFIX)
    }


def importing(code: str) -> list[str]:
    """The test files that import a file of the code."""
    name = PurePosixPath(code).stem
    texts = ((file, (ROOT / file).read_text("utf-8")) for file in files_with_tests())
    return [file for file, text in texts if name in text and code in imported(text)]


def main(files: list[str]) -> None:
    for file in files:
        code = str((Path.cwd() / file).resolve().relative_to(ROOT))
        if code not in code_files():
            sys.exit(f"{file}: not a file of {', '.join(PACKAGES)}")
        print(place_of_tests(code, folders_of(files_with_tests())))
        for test in importing(code):
            print(f"  {test}")


if __name__ == "__main__":
    main(sys.argv[1:])
