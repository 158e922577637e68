"""Walks the statements of a parsed file: a tenth of its nodes, and the imports and classes."""

import ast
from collections.abc import Iterator


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield every statement below a node, at any depth, in the order of the text."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        children: object = getattr(tree, part, None)
        if not isinstance(children, list):
            continue
        for child in children:  # pyright: ignore[reportUnknownVariableType]
            if isinstance(child, ast.stmt):
                yield child
            if isinstance(child, ast.AST):
                yield from statements(child)
