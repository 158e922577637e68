"""What holds for the code as a whole: who may import whom, and how large things may grow."""

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest
from msgspec import Struct

from tests.imports import (
    HOUSE,
    Import,
    against_the_order,
    cycles,
    imports,
    modules,
    room_table,
    wing,
    wings,
)
from tools.statements import statements

ROOT = Path(__file__).parent.parent
NAME = "strowger_gateway"
PREFIX = f"{NAME}."
PACKAGES = ("schemas", "adapters", "local_engine", "gateway")
MAY_IMPORT = {
    "schemas": {"schemas"},
    "adapters": {"adapters", "schemas"},
    "local_engine": {"local_engine", "schemas"},
    "gateway": set(PACKAGES),
}
CONFINED = {
    "httpx": ("gateway/backends/upstream/",),
    "torch_npu": ("local_engine/device.py", "local_engine/ops/"),
    "torch": ("local_engine/",),
    "transformers": ("local_engine/",),
}
SCHEMAS_USE = {"msgspec", "schemas"}
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
NAMES = [str(path.relative_to(ROOT)) for path in FILES]
LINES_A_FILE, LINES_A_FUNCTION, FILES_A_FOLDER = 400, 60, 25
DATA_TABLES = {"adapters/openai/vendor_profiles.py"}
FORBIDDEN_NAMES = ("utils", "helpers", "common", "manager", "handler")


class Source(Struct, frozen=True, kw_only=True):
    """What the rules ask of a file. imports: ours without the prefix. functions: name and lines."""

    lines: int
    docstring: str | None
    imports: frozenset[str]
    functions: tuple[tuple[str, int], ...]
    classes: tuple[str, ...]


@cache
def source(path: Path) -> Source:
    """Parsed once for all the rules: anew for each, it is most of their time."""
    text = path.read_text()
    tree = ast.parse(text)
    imports: set[str] = set()
    functions: list[tuple[str, int]] = []
    classes: list[str] = []
    imported: set[int] = set()
    for node in statements(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported.update(range(node.lineno - 1, node.end_lineno or node.lineno))
        match node:
            case ast.Import():
                imports.update(alias.name.removeprefix(PREFIX) for alias in node.names)
            case ast.ImportFrom() if node.module == NAME:
                imports.update(alias.name for alias in node.names)
            case ast.ImportFrom() if node.module:
                imports.add(node.module.removeprefix(PREFIX))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                assert node.end_lineno is not None
                functions.append((node.name, node.end_lineno - node.lineno + 1))
            case ast.ClassDef():
                classes.append(node.name)
            case _:
                pass
    return Source(
        lines=len(set(range(text.count("\n"))) - imported),
        docstring=ast.get_docstring(tree),
        imports=frozenset(imports),
        functions=tuple(functions),
        classes=tuple(classes),
    )


def test_nothing_imports_upwards_or_sideways() -> None:
    found: dict[str, set[str]] = {}
    for name in NAMES:
        package = name.split("/")[0]
        ours = {module.split(".")[0] for module in source(ROOT / name).imports} & set(PACKAGES)
        if not ours <= MAY_IMPORT[package]:
            found[name] = ours - MAY_IMPORT[package]

    assert found == {}


def test_a_wing_imports_only_what_stands_before_it() -> None:
    found = [
        f"{modules()[one.module].relative_to(ROOT)}:{one.line} imports {one.imported}: "
        f"{wing(one.imported)} stands after {wing(one.module)}"
        for one in against_the_order(imports(), wings())
    ]

    assert found == [], "move what both need to the lower wing; the order is in tests/rooms.toml"


def test_the_gateway_consists_of_its_wings_and_so_do_its_tests() -> None:
    listed = {one.partition("/")[2] for one in wings() if "/" in one}

    assert entries(ROOT / "gateway") == listed | {"__init__.py"}
    tests = ROOT / "tests" / "gateway"
    assert {name for name in entries(tests) if (tests / name).is_dir()} <= listed
    assert len(listed) <= 21


def entries(folder: Path) -> set[str]:
    """What lies in a folder. Of a folder that moved, `git pull` leaves the compiled files."""
    return {
        path.name
        for path in folder.iterdir()
        if path.is_file() or any(one.is_file() and one.suffix != ".pyc" for one in path.rglob("*"))
    }


def test_a_folder_with_nothing_but_compiled_files_is_not_there(tmp_path: Path) -> None:
    for name in ("left/__pycache__/old.pyc", "wing/__pycache__/one.pyc", "wing/one.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert entries(tmp_path) == {"wing"}


def test_imports_form_no_cycle_at_any_level() -> None:
    assert cycles(imports()) == [], "move what both need to a place below them"


def importing(*pairs: tuple[str, str]) -> list[Import]:
    return [Import(module=module, imported=imported) for module, imported in pairs]


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        (
            importing(("gateway.a.one", "gateway.b.two"), ("gateway.b.three", "gateway.a.four")),
            ["gateway: a -> b -> a"],
        ),
        (
            importing(("gateway.a.r.one", "gateway.a.s.two"), ("gateway.a.s.two", "gateway.a.r.x")),
            ["gateway/a: r -> s -> r"],
        ),
        (
            importing(("gateway.a.one", "gateway.a.r.two"), ("gateway.a.r.x", "gateway.a.one")),
            ["gateway/a: one -> r -> one"],
        ),
        (
            importing(("schemas.one", "schemas.two"), ("schemas.two", "schemas.one")),
            ["files: schemas.one -> schemas.two -> schemas.one", "schemas: one -> two -> one"],
        ),
        (importing(("gateway.a.one", "gateway.b.two"), ("gateway.a.x", "gateway.b.two")), []),
    ],
)
def test_a_cycle_is_found_at_every_level(planted: list[Import], found: list[str]) -> None:
    assert cycles(planted) == found


def test_an_import_against_the_order_is_found() -> None:
    down = importing(
        ("gateway.cli.check", "gateway.config.load"), ("gateway.cli.check", "schemas.x")
    )
    up = importing(("gateway.config.load", "gateway.cli.check"), ("schemas.x", "adapters.base"))

    assert list(against_the_order([*down, *up], wings())) == up


def test_a_folder_is_a_room_of_at_most_twenty_five_files() -> None:
    folders: dict[str, int] = {}
    for path in [*FILES, *(ROOT / "tests").rglob("*.py")]:
        if path.name != "__init__.py":
            folder = str(path.parent.relative_to(ROOT))
            folders[folder] = folders.get(folder, 0) + 1

    assert {name: size for name, size in folders.items() if size > FILES_A_FOLDER} == {}


def test_heavy_and_network_libraries_stay_where_they_belong() -> None:
    found: list[tuple[str, str]] = []
    for name in NAMES:
        for module in source(ROOT / name).imports:
            allowed = CONFINED.get(module.split(".")[0])
            if allowed is not None and not name.startswith(allowed):
                found.append((name, module))

    assert found == []


def test_the_vocabulary_needs_msgspec_and_nothing_else() -> None:
    import sys

    allowed = SCHEMAS_USE | sys.stdlib_module_names
    found = [
        (name, module)
        for name in NAMES
        if name.startswith("schemas/")
        for module in source(ROOT / name).imports
        if module.split(".")[0] not in allowed
    ]

    assert found == []


def test_a_file_has_one_reason_to_exist_and_says_it() -> None:
    undocumented = [name for name in NAMES if not source(ROOT / name).docstring]
    long = [
        name
        for name in NAMES
        if name not in DATA_TABLES and source(ROOT / name).lines > LINES_A_FILE
    ]
    vague = [name for name in NAMES if {*Path(name).stem.split("_")} & {*FORBIDDEN_NAMES}]

    assert undocumented == []
    assert long == [], f"more than {LINES_A_FILE} lines besides imports"
    assert vague == []


def test_a_function_fits_on_a_screen() -> None:
    found = [
        (name, function, lines)
        for name in NAMES
        for function, lines in source(ROOT / name).functions
        if lines > LINES_A_FUNCTION
    ]

    assert found == []


def test_the_gateway_starts_without_its_heavy_extras() -> None:
    import subprocess
    import sys

    program = (
        "import sys, strowger_gateway.gateway.cli, strowger_gateway.gateway.fleet.processes.main, "
        "strowger_gateway.gateway.http.app;"
        "heavy = {'torch', 'transformers', 'tokenizers', 'jinja2', 'botocore', 'redis', 'requests',"
        "'google.auth', 'azure.identity'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, cwd=ROOT
    )

    assert result.returncode == 0, result.stderr.decode()


PUBLIC = {
    "adapters.base",
    "adapters.data_uri",
    "adapters.errors",
    "adapters.error_message",
    "adapters.retry_after",
    "adapters.testing",
}
"""What docs/add-a-provider.md calls public, and all of `schemas`."""

PUBLIC_FOR_HOOKS = {
    "gateway.content.hooks.contract",
    "gateway.content.hooks.request_text",
    "gateway.content.hooks.testing",
    "gateway.content.hooks.text_hook",
}
"""What docs/write-a-hook.md calls public."""

EXAMPLES = sorted((ROOT / "docs" / "examples").rglob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_imports_only_what_is_public(path: Path) -> None:
    ours = {module for module in source(path).imports if module.split(".")[0] in PACKAGES}

    assert {
        module for module in ours if not module.startswith("schemas.")
    } <= PUBLIC | PUBLIC_FOR_HOOKS


def test_what_is_public_is_what_the_documentation_calls_so() -> None:
    for name, public in (("add-a-provider.md", PUBLIC), ("write-a-hook.md", PUBLIC_FOR_HOOKS)):
        page = (ROOT / "docs" / name).read_text()
        assert all(f"`{PREFIX}{module}`" in page for module in public)


def test_the_wheel_holds_the_packages_and_no_example() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": [NAME]}
    for package in PACKAGES:
        assert (ROOT / NAME / package / "__init__.py").is_file(), "a link, or in an sdist a folder"
    # What lies below a link is only checked if the link itself is named.
    checked = project["tool"]["basedpyright"]["include"]
    assert {f"{NAME}/{package}" for package in PACKAGES} <= set(checked)


def test_the_documented_table_of_folders_is_that_of_the_code() -> None:
    assert room_table() in HOUSE.read_text(), "run `python -m tests.imports`"


def test_a_class_name_exists_once_in_a_package() -> None:
    found: dict[str, list[str]] = {}
    for path in FILES:
        for name in source(path).classes:
            if not name.startswith("_"):
                package = path.relative_to(ROOT).parts[0]
                found.setdefault(f"{package}: {name}", []).append(str(path.relative_to(ROOT)))
    twice = {name: places for name, places in found.items() if len(places) > 1}
    assert twice == {}, "name each by what only it is; a reader searches by name"
