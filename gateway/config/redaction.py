"""Redact decoded JSON: fields by name or path, and patterns in texts."""

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from strowger_gateway.gateway.config.schema.payloads import RedactRule
from strowger_gateway.schemas.errors import InvalidConfig

NEEDS_RE2: Final = (
    "pattern needs the package google-re2: pip install 'strowger-gateway[guardrails]'"
)
MAX_DEPTH: Final = 200
"""Nesting of a value; what is deeper is not logged."""
TOO_DEEP: Final = "[nested too deeply]"
UNREADABLE: Final = "[redacted]"
"""In place of what repeats a text in a form that patterns cannot read, if there are patterns."""
_BY_TOKEN: Final = frozenset({"logprobs", "logprobsResult"})
_IN_NUMBERS: Final = "context"
"""Of Ollama's API: a list of integers."""
_IN_BASE64: Final = frozenset({"encrypted_content", "thoughtSignature", "thought_signature"})
"""What a vendor wants back of its reasoning, and the reasoning's text."""

_PLACE = re.compile(r"\[\d*\]")

Substitute = Callable[[str], str]


class _Options(Protocol):
    log_errors: bool


class _Pattern(Protocol):
    def sub(self, repl: str, text: str) -> str: ...


class _Re2(Protocol):
    """The part of google-re2 that is used; the package has no types."""

    error: type[Exception]

    def Options(self) -> _Options: ...  # noqa: N802
    def compile(self, pattern: str, options: _Options) -> _Pattern: ...


class Redactor:
    """Applies rules to decoded JSON. Raises InvalidConfig for a pattern that cannot be used."""

    def __init__(self, rules: Sequence[RedactRule]) -> None:
        self._names: dict[str, str] = {}
        self._paths: dict[str, str] = {}
        self._patterns: list[Substitute] = []
        for rule in rules:
            if rule.field is not None:
                field = rule.field
                known = self._paths if "." in field or "[" in field else self._names
                known[_PLACE.sub("[]", field)] = rule.replacement
            elif rule.pattern is not None:
                self._patterns.append(substitute(rule.pattern, rule.replacement))

    @property
    def has_rules(self) -> bool:
        return bool(self._names or self._paths or self._patterns)

    def text(self, value: str) -> str:
        """Apply the patterns to a text."""
        for one in self._patterns:
            value = one(value)
        return value

    def value(self, value: object, path: str = "", depth: int = 0) -> object:
        """Return a redacted copy of decoded JSON."""
        if depth > MAX_DEPTH:
            return TOO_DEEP
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            held: dict[str, object] = {}
            for key, inner in cast("dict[str, object]", value).items():
                place = f"{path}.{key}" if path else key
                found = self._names.get(key)
                if found is None:
                    found = self._paths.get(place)
                if found is None and self._patterns and _repeats_unreadably(key, inner):
                    found = UNREADABLE
                shown = self.text(key)
                held[shown] = self.value(inner, place, depth + 1) if found is None else found
            return held
        if isinstance(value, list):
            place = f"{path}[]"
            found = self._paths.get(place)
            items = cast("list[object]", value)
            return [
                self.value(inner, place, depth + 1) if found is None else found for inner in items
            ]
        return value


def _repeats_unreadably(key: str, value: object) -> bool:
    if not value:
        return False
    if key in _BY_TOKEN:
        return isinstance(value, dict | list)
    if key in _IN_BASE64:
        return isinstance(value, str)
    return (
        key == _IN_NUMBERS
        and isinstance(value, list)
        and isinstance(cast("list[object]", value)[0], int)
    )


def substitute(pattern: str, replacement: str) -> Substitute:
    """Return a function that replaces all matches, in time linear in the text.

    Raises InvalidConfig if the pattern is invalid or google-re2 is not installed.
    """
    try:
        re2 = cast("_Re2", importlib.import_module("re2"))
    except ImportError as exc:
        raise InvalidConfig((NEEDS_RE2,)) from exc
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as exc:
        raise InvalidConfig((f"is not a regular expression of RE2: {exc}",)) from exc
    literal = replacement.replace("\\", "\\\\")
    return lambda text: compiled.sub(literal, text)
