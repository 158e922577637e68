"""Patterns and words, found in linear time."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from strowger_gateway.gateway.content.hooks.contract import Span
from strowger_gateway.gateway.content.hooks.text_hook import TextHook

re2: Any = importlib.import_module("re2")
"""It has no types."""


MOST_FINDINGS: Final = 10_000
"""Findings of one rule in one text, 20 ms: a further one reaches to the end of the text, so that a
text of nothing but findings takes neither seconds nor hundreds of megabytes."""


class Pattern(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """regex: in RE2's syntax. https://github.com/google/re2/wiki/Syntax"""

    name: str
    regex: str
    replacement: str = "[masked]"


class PatternSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """words: texts that are found in any case of letters, also within words; the rule `words`."""

    patterns: tuple[Pattern, ...] = ()
    words: tuple[str, ...] = ()


class PatternHook(TextHook):
    """One pass over a text for all patterns; further passes only for those that matched."""

    def __init__(self, rules: Sequence[Pattern]) -> None:
        """Raises ValueError for a pattern that RE2 does not read, or that matches no text."""
        options = re2.Options()
        options.log_errors = False
        self._rules: list[tuple[Any, Pattern]] = []
        self._set = re2.Set.SearchSet(options)
        for rule in rules:
            try:
                compiled = re2.compile(rule.regex, options)
                self._set.Add(rule.regex)
            except re2.error as exc:
                why = exc.args[0] if exc.args else ""
                text = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
                raise ValueError(
                    f"pattern {rule.name!r}: {text}; use RE2's syntax, without lookaround"
                ) from None
            if compiled.search("") is not None:
                raise ValueError(f"pattern {rule.name!r} matches the empty text")
            self._rules.append((compiled, rule))
        if self._rules:
            self._compile_set()

    def _compile_set(self) -> None:
        try:
            self._set.Compile()
        except re2.error:
            raise ValueError(
                "the patterns and words are too large together; shorten counted repetitions such "
                r"as \w{1,500}, or divide the patterns or words among several guardrails"
            ) from None

    def find(self, text: str, begin: int) -> Sequence[Span]:
        if not self._rules:
            return ()
        matched: list[int] = self._set.Match(text)
        if not matched:
            return ()
        found: list[Span] = []
        for index in matched:
            compiled, rule = self._rules[index]
            for count, match in enumerate(compiled.finditer(text, begin)):
                start, end = match.span()
                if count >= MOST_FINDINGS:
                    end = len(text)
                if end > start:
                    found.append(
                        Span(start=start, end=end, rule=rule.name, replacement=rule.replacement)
                    )
                if count >= MOST_FINDINGS:
                    break
        return found


def pattern_hook(settings: Mapping[str, object]) -> PatternHook:
    """The hook `patterns`. Raises ValueError, msgspec.ValidationError."""
    asked = msgspec.convert(settings, PatternSettings)
    rules = list(asked.patterns)
    if asked.words:
        if any(not word.strip() for word in asked.words):
            raise ValueError("words has an empty word")
        words = "|".join(re2.escape(word) for word in asked.words)
        rules.append(Pattern(name="words", regex=rf"(?i)(?:{words})"))
    if not rules:
        raise ValueError("needs patterns or words")
    return PatternHook(rules)
