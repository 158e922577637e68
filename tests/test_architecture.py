"""What holds for the code as a whole: who may import whom, and how large things may grow."""

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest
from msgspec import Struct

ROOT = Path(__file__).parent.parent
PACKAGES = ("schemas", "adapters", "local_engine", "gateway")
MAY_IMPORT = {
    "schemas": {"schemas"},
    "adapters": {"adapters", "schemas"},
    "local_engine": {"local_engine", "schemas"},
    "gateway": set(PACKAGES),
}
CONFINED = {
    "httpx": ("gateway/upstream/",),
    "torch_npu": ("local_engine/device.py", "local_engine/ops/"),
    "torch": ("local_engine/",),
    "transformers": ("local_engine/",),
}
SCHEMAS_USE = {"msgspec", "schemas"}
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
NAMES = [str(path.relative_to(ROOT)) for path in FILES]
LINES_A_FILE, LINES_A_FUNCTION = 400, 60
DATA_TABLES = {"adapters/catalog.py"}
FORBIDDEN_NAMES = ("utils", "helpers", "common", "manager", "handler")


class Source(Struct, frozen=True, kw_only=True):
    """What the rules ask of a file. functions: name and lines of each."""

    text: str
    docstring: str | None
    imports: frozenset[str]
    functions: tuple[tuple[str, int], ...]


@cache
def source(path: Path) -> Source:
    """Parsed once for all the rules: anew for each, it is most of their time."""
    text = path.read_text()
    tree = ast.parse(text)
    imports: set[str] = set()
    functions: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                imports.update(alias.name for alias in node.names)
            case ast.ImportFrom() if node.module:
                imports.add(node.module)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                assert node.end_lineno is not None
                functions.append((node.name, node.end_lineno - node.lineno + 1))
            case _:
                pass
    return Source(
        text=text,
        docstring=ast.get_docstring(tree),
        imports=frozenset(imports),
        functions=tuple(functions),
    )


@pytest.mark.parametrize("name", NAMES)
def test_nothing_imports_upwards_or_sideways(name: str) -> None:
    package = name.split("/")[0]

    ours = {module.split(".")[0] for module in source(ROOT / name).imports} & set(PACKAGES)

    assert ours <= MAY_IMPORT[package]


@pytest.mark.parametrize("name", NAMES)
def test_heavy_and_network_libraries_stay_where_they_belong(name: str) -> None:
    for module in source(ROOT / name).imports:
        allowed = CONFINED.get(module.split(".")[0])
        assert allowed is None or name.startswith(allowed), module


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("schemas/")])
def test_the_vocabulary_needs_msgspec_and_nothing_else(name: str) -> None:
    import sys

    for module in source(ROOT / name).imports:
        top = module.split(".")[0]
        assert top in SCHEMAS_USE or top in sys.stdlib_module_names, module


@pytest.mark.parametrize("name", NAMES)
def test_a_file_has_one_reason_to_exist_and_says_it(name: str) -> None:
    file = source(ROOT / name)

    assert file.docstring, "the file's docstring is missing"
    assert name in DATA_TABLES or file.text.count("\n") <= LINES_A_FILE
    assert not any(word in Path(name).stem.split("_") for word in FORBIDDEN_NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_function_fits_on_a_screen(name: str) -> None:
    for function, lines in source(ROOT / name).functions:
        assert lines <= LINES_A_FUNCTION, function


def test_the_gateway_starts_without_its_heavy_extras() -> None:
    import subprocess
    import sys

    program = (
        "import sys, gateway.cli, gateway.supervisor, gateway.app;"
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
    "adapters.openai_errors",
    "adapters.problem",
    "adapters.retry_after",
    "adapters.testing",
}
"""What docs/add-a-provider.md calls public, and all of `schemas`."""

EXAMPLES = sorted((ROOT / "docs" / "examples").rglob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_imports_only_what_is_public(path: Path) -> None:
    ours = {module for module in source(path).imports if module.split(".")[0] in PACKAGES}

    assert {module for module in ours if not module.startswith("schemas.")} <= PUBLIC


def test_what_is_public_is_what_the_documentation_calls_so() -> None:
    page = (ROOT / "docs" / "add-a-provider.md").read_text()

    assert all(f"`{module}`" in page for module in PUBLIC)


def test_the_wheel_holds_the_packages_and_no_example() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": list(PACKAGES)}
