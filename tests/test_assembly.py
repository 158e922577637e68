"""What puts features together stays small: the next feature must not make it grow."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.statements import statements

ROOT = Path(__file__).parent.parent
CENTRAL = (
    "gateway/config/checks/check.py",
    "gateway/fleet/processes/leader.py",
    "gateway/fleet/processes/server.py",
    "gateway/fleet/processes/single_process.py",
    "gateway/fleet/processes/worker.py",
    "gateway/http/endpoint.py",
)
ASSEMBLY = sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "gateway" / "assembly").rglob("*.py")
)
MOST_IMPORTS = 20
MOST_ATTRIBUTES = 12
MOST_THINGS = 5
THINGS = {
    "Caller",
    "ChatRequest",
    "CompletionRequest",
    "DisconnectGuard",
    "EmbeddingsRequest",
    "Gateway",
    "GenerateRequest",
    "Generation",
    "HotExchange",
    "HotRoute",
    "Plan",
    "Renderer",
    "Request",
    "RequestContext",
    "RequestRecord",
    "ResponseWriter",
    "Route",
    "Runtime",
    "Slot",
    "TokenRequest",
}
"""Types of what belongs to one request, or travels with it."""


def tree(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text())


def attributes(kind: ast.ClassDef) -> set[str]:
    """What an object of the class holds: assigned to `self`, or declared as fields."""
    assigned = {
        node.attr
        for node in ast.walk(kind)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    declared = {
        node.target.id
        for node in kind.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    return assigned | declared


def names_in(annotation: ast.expr) -> set[str]:
    return {
        name
        for node in ast.walk(annotation)
        for name in (
            [node.id]
            if isinstance(node, ast.Name)
            else node.value.replace("|", " ").split()
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            else []
        )
    }


def things(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The parameters that are of a request."""
    given = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    return [one.arg for one in given if one.annotation and names_in(one.annotation) & THINGS]


def functions(name: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in statements(tree(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("name", [*ASSEMBLY, *CENTRAL])
def test_no_file_puts_more_than_twenty_modules_together(name: str) -> None:
    modules = {
        node.module
        for node in ast.walk(tree(name))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("strowger_gateway")
    }
    assert len(modules) <= MOST_IMPORTS


@pytest.mark.parametrize("name", [*ASSEMBLY, *CENTRAL])
def test_no_object_holds_more_than_twelve_things(name: str) -> None:
    found = {
        node.name: sorted(attributes(node))
        for node in ast.walk(tree(name))
        if isinstance(node, ast.ClassDef) and len(attributes(node)) > MOST_ATTRIBUTES
    }
    assert found == {}


def test_no_function_takes_more_than_five_things_of_a_request() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {function.name}": things(function)
        for path in sorted((ROOT / "gateway").rglob("*.py"))
        for function in functions(str(path.relative_to(ROOT)))
        if len(things(function)) > MOST_THINGS
    }
    assert found == {}
