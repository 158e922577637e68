"""Find every error code that the code can raise, with its statuses, without importing the code."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from tools.statements import statements

ROOT = Path(__file__).parents[2]
PACKAGES = ("schemas", "adapters", "local_engine", "gateway")
_BASE = "GatewayError"
_PASSED_ON = ast.Name | ast.Attribute | ast.Call
"""Expressions of codes that come from elsewhere: from another error, or from a vendor."""


class Raised(Struct, frozen=True, kw_only=True):
    """One code. retry: the entry of `retry.on` that allows another attempt, "" if none ever does.

    statuses: HTTP statuses, ascending; empty if the backend's own status is passed on.
    """

    code: str
    statuses: tuple[int, ...]
    retry: str


class _Class(Struct, frozen=True, kw_only=True):
    """own: the constants that the class body sets."""

    bases: tuple[str, ...]
    own: Mapping[str, object]


@cache
def raised() -> Mapping[str, Raised]:
    """Return every code of a class below GatewayError, and every one that a call of it sets.

    Raises ValueError if a call has a code that is neither a constant nor passed on.
    """
    texts = {
        path: path.read_text("utf-8")
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    trees = {path: ast.parse(text) for path, text in texts.items()}
    constants = {name: text for tree in trees.values() for name, text in _constants(tree)}
    classes = {name: found for tree in trees.values() for name, found in _classes(tree)}
    errors = {name for name in classes if _BASE in _line(name, classes)}
    found: dict[str, tuple[set[int], str]] = {}
    for name in errors:
        _note(found, str(_value(name, "code", classes)), name, None, classes)
    called = re.compile(rf"\b(?:{'|'.join(sorted(errors))})\(")
    for path, tree in trees.items():
        for call in ast.walk(tree) if called.search(texts[path]) else ():
            if isinstance(call, ast.Call) and _name(call.func) in errors:
                given = {word.arg: word.value for word in call.keywords}
                if not isinstance(given.get("code"), ast.Constant | _PASSED_ON | None):
                    raise ValueError(
                        f"{path}:{call.lineno}: the code is neither constant nor an error's"
                    )
                code = _text(given.get("code"), constants)
                if code is not None:
                    status = given.get("status")
                    own = status.value if isinstance(status, ast.Constant) else None
                    _note(found, code, _name(call.func), own, classes)
    return {
        code: Raised(code=code, statuses=tuple(sorted(statuses)), retry=retry)
        for code, (statuses, retry) in found.items()
    }


def _note(
    found: dict[str, tuple[set[int], str]],
    code: str,
    name: str,
    status: object,
    classes: Mapping[str, _Class],
) -> None:
    statuses, retry = found.get(code, (set[int](), ""))
    found[code] = statuses, retry or str(_value(name, "kind", classes) or "")
    if isinstance(status, int):
        statuses.add(status)
    elif name != "UpstreamRejected":
        statuses.add(int(str(_value(name, "status", classes))))


def _value(name: str, attribute: str, classes: Mapping[str, _Class]) -> object:
    return next(
        (
            classes[one].own[attribute]
            for one in _line(name, classes)
            if one in classes and attribute in classes[one].own
        ),
        None,
    )


def _line(name: str, classes: Mapping[str, _Class]) -> list[str]:
    """The class and its bases, nearest first."""
    known = classes.get(name)
    return [name, *(one for base in (known.bases if known else ()) for one in _line(base, classes))]


def _classes(tree: ast.Module) -> Iterator[tuple[str, _Class]]:
    for node in statements(tree):
        if isinstance(node, ast.ClassDef):
            bases = tuple(ast.unparse(base) for base in node.bases)
            yield node.name, _Class(bases=bases, own=dict(_assigned(node.body)))


def _name(function: ast.expr) -> str:
    """The name of what is called, "" for anything but a plain name."""
    return function.id if isinstance(function, ast.Name) else ""


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for name, value in _assigned(tree.body):
        if isinstance(value, str):
            yield name, value


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, object]]:
    for line in body:
        targets = line.targets if isinstance(line, ast.Assign) else ()
        if isinstance(line, ast.AnnAssign):
            targets = (line.target,)
        value = getattr(line, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                yield target.id, value.value


def _text(value: ast.expr | None, constants: Mapping[str, str]) -> str | None:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    return constants.get(value.id) if isinstance(value, ast.Name) else None
