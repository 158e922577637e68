"""docs/reference/python-api.md: signatures and docstrings of what packages of others may import."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAD = Path(__file__).with_name("python_api.md")
VOCABULARY = "The vocabulary"
MODULES = {
    "For adapters": (
        "strowger_gateway.adapters.base",
        "strowger_gateway.adapters.errors",
        "strowger_gateway.adapters.error_message",
        "strowger_gateway.adapters.retry_after",
        "strowger_gateway.adapters.data_uri",
        "strowger_gateway.adapters.testing",
    ),
    "For hooks": (
        "strowger_gateway.gateway.content.hooks.contract",
        "strowger_gateway.gateway.content.hooks.text_hook",
        "strowger_gateway.gateway.content.hooks.request_text",
        "strowger_gateway.gateway.content.hooks.testing",
    ),
    VOCABULARY: tuple(
        f"strowger_gateway.schemas.{file.stem}"
        for file in sorted((ROOT / "schemas").glob("*.py"))
        if file.stem != "__init__"
    ),
}
"""Modules by section. docs/add-a-provider.md and docs/write-a-hook.md promise these."""

_INDENT = "    "
_WIDTH = 100
_METHODS = ast.FunctionDef | ast.AsyncFunctionDef


def page() -> str:
    """Return the page: a section per group, a heading per module, one listing per module."""
    parts = [HEAD.read_text("utf-8")]
    for title, modules in MODULES.items():
        parts.append(f"\n## {title}\n")
        parts += [_module(name) for name in modules]
    return "".join(parts)


def _module(name: str) -> str:
    path = name.removeprefix("strowger_gateway.").replace(".", "/")
    source = (ROOT / path).with_suffix(".py").read_text("utf-8")
    tree = ast.parse(source)
    lines = source.splitlines()
    listed = "\n\n\n".join("\n".join(_shown(node, lines)) for node in _public(tree))
    about = ast.get_docstring(tree) or ""
    return f"\n### `{name}`\n\n```text\n{about}\n```\n\n```python\n{listed}\n```\n"


def _public(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield classes, functions and constants; a constant's docstring follows it."""
    for place, node in enumerate(tree.body):
        following = tree.body[place + 1 : place + 2]
        if isinstance(node, ast.ClassDef | _METHODS):
            if not node.name.startswith("_"):
                yield node
        elif any(_is_public(name) for name in _targets(node)):
            end = following[0] if following and _is_text(following[0]) else node
            node.end_lineno = end.end_lineno
            yield node


def _targets(node: ast.stmt) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    for target in targets:
        if isinstance(target, ast.Name):
            yield target.id


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _is_member(node: ast.stmt) -> bool:
    if isinstance(node, _METHODS):
        return _is_public(node.name) or node.name in ("__init__", "__call__", "__str__")
    return any(_is_public(name) for name in _targets(node))


def _is_text(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _shown(node: ast.stmt, lines: list[str]) -> Iterator[str]:
    """Yield the source of a constant; of a function or a class, what its caller has to know."""
    if isinstance(node, _METHODS):
        *first, last = _head(node, lines)
        if _is_text(node.body[0]):
            yield from (*first, last, f"{' ' * node.col_offset}{_INDENT}...")
        else:
            yield from (*first, *_wrapped(f"{last} ..."))
    elif isinstance(node, ast.ClassDef):
        yield from _head(node, lines)
        shown = [one for one in node.body if _is_member(one)]
        if shown and _is_text(node.body[0]) and not isinstance(shown[0], _METHODS):
            yield ""
        for one in shown:
            if isinstance(one, _METHODS):
                yield ""
                yield from _shown(one, lines)
            else:
                yield from lines[one.lineno - 1 : one.end_lineno]
    else:
        yield from lines[node.lineno - 1 : node.end_lineno]


def _wrapped(line: str) -> list[str]:
    """A `def` that is too long for one line, as ruff wraps it."""
    if len(line) <= _WIDTH:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    name, _, rest = line.partition("(")
    arguments, _, end = rest.rpartition(") ->")
    return [f"{name}(", f"{indent}{_INDENT}{arguments}", f"{indent}) ->{end}"]


def _head(
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]
) -> list[str]:
    """Decorators, the line that names it, and the docstring."""
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    begin = node.body[0]
    if _is_text(begin):
        return lines[first - 1 : begin.end_lineno]
    decorated = getattr(begin, "decorator_list", [])
    head = lines[first - 1 : min([begin.lineno, *(one.lineno for one in decorated)]) - 1]
    return head or [lines[first - 1].rpartition(":")[0] + ":"]
