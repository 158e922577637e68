"""Translates single values: environment references, secrets, periods and prices."""

import re
from collections.abc import Iterator
from decimal import Decimal

from strowger_gateway.gateway.cli.litellm_import.ledger import Ledger, Path
from strowger_gateway.gateway.config.yaml_document import Tree

REFERENCE = "os.environ/"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Values:
    """Translates values and collects the environment variables that the result needs."""

    def __init__(self, ledger: Ledger, document: Tree) -> None:
        self.ledger = ledger
        self.variables: dict[str, None] = {}
        self._secrets: dict[str, str | None] = dict.fromkeys(_references(document))
        """The secret by the name of its variable; `None` for variables that the file refers to."""

    def text(self, value: Tree) -> str | None:
        """Return text for config.yaml, `None` for a value that is not text."""
        if not isinstance(value, str) or not value:
            return None
        if value.startswith(REFERENCE):
            name = value.removeprefix(REFERENCE)
            return self.variable(name) if _NAME.fullmatch(name) else None
        return escaped(value)

    def secret(self, value: Tree, path: Path, to: str, name: str) -> str | None:
        """Return a reference; a secret in the file is listed and becomes the variable `name`."""
        if not isinstance(value, str) or not value:
            return None
        if value.startswith(REFERENCE):
            found = self.text(value)
            if found is None:
                self.ledger.omit(
                    path,
                    "a variable's name has letters, digits and _ only",
                    f"rename the variable and set {to} in config.yaml",
                )
            else:
                self.ledger.translate(path, to)
            return found
        name = self._free(name, value)
        self.ledger.omit(
            path,
            f"a secret in the file; {to} reads it from the environment instead",
            f"set the environment variable {name} to its value",
        )
        return self.variable(name)

    def secrets(self) -> dict[str, str]:
        """Return the secrets of the document, by the variables that stand for them."""
        found = ((name, self._secrets.get(name)) for name in self.variables)
        return {name: secret for name, secret in found if secret is not None}

    def _free(self, name: str, secret: str) -> str:
        """Return the first of NAME, NAME_2, … that has this secret or none."""
        free, count = name, 1
        while self._secrets.setdefault(free, secret) != secret:
            count += 1
            free = f"{name}_{count}"
        return free

    def variable(self, name: str) -> str:
        self.variables[name] = None
        return f"${{{name}}}"


def escaped(text: str) -> str:
    """Return text that config.yaml reads as `text`."""
    return text.replace("${", "$${")


def _references(tree: Tree) -> Iterator[str]:
    if isinstance(tree, str) and tree.startswith(REFERENCE):
        yield tree.removeprefix(REFERENCE)
    elif isinstance(tree, list | dict):
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from _references(one)


def variable_name(*parts: str) -> str:
    """Return the name of an environment variable made of these words."""
    return re.sub(r"[^A-Z0-9]+", "_", "_".join(parts).upper()).strip("_")


def per_million(value: float) -> float:
    """Convert a price per token exactly: 2.5e-06 is 2.5, not 2.4999."""
    return float(Decimal(repr(value)) * 1_000_000)
