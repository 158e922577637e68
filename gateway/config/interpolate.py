"""`${NAME}`, `${NAME:-default}` and `${file:/path}` inside the values of config.yaml."""

import re
from collections.abc import Mapping
from pathlib import Path as FilePath

from strowger_gateway.gateway.config.problems import Path, Problems
from strowger_gateway.gateway.config.schema.units import MIB
from strowger_gateway.gateway.config.text_files import LARGEST, TooLarge, read_text
from strowger_gateway.gateway.config.yaml_document import Tree

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<inside>[^{}]*)\}|\$\{")
_NAME = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(:-(?P<default>.*))?", re.DOTALL)
_FILE = "file:"
_CREDENTIAL = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


class Resolved(str):
    """Text with resolved references. parts: their values, possibly secret."""

    __slots__ = ("parts",)
    parts: tuple[str, ...]


class Unresolved(str):
    """Text with a reference that could not be resolved; the fault is already recorded."""

    __slots__ = ()


class Interpolation:
    """Resolve references from an environment; relative files start at `folder`."""

    def __init__(self, env: Mapping[str, str], folder: FilePath, problems: Problems) -> None:
        self._env = env
        self._folder = folder
        self._problems = problems

    def fill(self, tree: Tree, path: Path = ()) -> Tree:
        match tree:
            case str():
                return self._text(tree, path)
            case list():
                return [self.fill(item, (*path, index)) for index, item in enumerate(tree)]
            case dict():
                return {key: self.fill(item, (*path, key)) for key, item in tree.items()}
            case _:
                return tree

    def _text(self, text: str, path: Path) -> str:
        pieces: list[str] = []
        parts: list[str] = []
        failed = False
        end = 0
        for found in _REFERENCE.finditer(text):
            pieces.append(text[end : found.start()])
            end = found.end()
            if found.group() == "$${":
                pieces.append("${")
                continue
            value = self._lookup(found.group("inside"), path)
            if value is None:
                failed = True
                continue
            pieces.append(value)
            parts.append(value)
        if failed:
            return Unresolved()
        whole = "".join([*pieces, text[end:]])
        if not parts:
            return whole
        resolved = Resolved(whole)
        resolved.parts = tuple(parts)
        return resolved

    def _lookup(self, inside: str | None, path: Path) -> str | None:
        if inside is not None and inside.startswith(_FILE):
            return self._file(inside.removeprefix(_FILE), path)
        named = _NAME.fullmatch(inside or "")
        if named is None:
            self._problems.add(
                path,
                "invalid reference; write ${NAME}, ${NAME:-default} or ${file:/path}, "
                "and $${ for a literal ${",
            )
            return None
        name, default = named["name"], named["default"]
        value = self._env.get(name)
        if value is not None and _CREDENTIAL.search(name):
            self._problems.hide(value)
        if value is not None and not _is_text(value):
            self._problems.add(path, f"the environment variable {name} is not UTF-8 text")
            return None
        if default is not None:
            return value or default
        if value == "" and path and (path[-1] == "api_key" or "api_keys" in path):
            self._problems.add(
                path,
                f"the environment variable {name} is set, and empty; give it the key, "
                f"or write ${{{name}:-}} if the provider needs none",
            )
            return None
        if value is None:
            self._problems.add(
                path,
                f"the environment variable {name} is not set; set it, "
                f"or give a default with ${{{name}:-…}}",
            )
        return value

    def _file(self, name: str, path: Path) -> str | None:
        """The file's text without its trailing line break."""
        try:
            text = read_text(self._folder / name).rstrip("\r\n")
        except OSError as exc:
            self._problems.add(path, f"the file {name} cannot be read: {exc.strerror}")
            return None
        except TooLarge:
            self._problems.add(path, f"the file {name} is larger than {LARGEST // MIB} MiB")
            return None
        except (UnicodeDecodeError, ValueError):
            self._problems.add(path, f"the file {name} is not UTF-8 text")
            return None
        self._problems.hide(text)
        return text


def references_in(text: str) -> tuple[str, ...]:
    """Return what is between `${` and `}`, of each reference in a text."""
    found = _REFERENCE.finditer(text)
    return tuple(one["inside"] for one in found if one["inside"] is not None)


def _is_text(value: str) -> bool:
    """Python represents bytes of the environment that are not UTF-8 as lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in value)
