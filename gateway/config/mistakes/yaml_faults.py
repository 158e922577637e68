"""Syntax errors of YAML in the words of who writes the file, and never in the words of the file.

PyYAML's messages name its own tokens (`<block end>`, `a simple key`). The few that configurations
really have become instructions; all others keep PyYAML's message.
"""

import re
from typing import Final

import yaml

from strowger_gateway.gateway.config.problems import Position

_TAB: Final = r"\t"
"""PyYAML's name of a tab."""

_QUOTED: Final = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def in_plain_words(exc: yaml.YAMLError, lines: list[str]) -> tuple[Position | None, str]:
    """Return where the error is, and what to do about it.

    lines: of the file. The message quotes nothing of them but YAML's own characters.
    """
    if not isinstance(exc, yaml.MarkedYAMLError) or exc.problem_mark is None:
        text = "contains characters that YAML forbids; save it as UTF-8 without control characters"
        return None, text
    mark = exc.problem_mark
    here = lines[mark.line] if mark.line < len(lines) else ""
    at = mark.line + 1, mark.column + 1
    plain = _plain(exc, here, lines)
    if plain:
        return at, f"not valid YAML: {plain}"
    message = ", ".join(part for part in (exc.context, exc.problem) if part)
    return at, f"not valid YAML: {_QUOTED.sub(_parsers_own, message)}"


def _plain(exc: yaml.MarkedYAMLError, here: str, lines: list[str]) -> str:
    """Return the error in plain words; "" for one without."""
    problem, context = exc.problem or "", exc.context or ""
    since = "" if exc.context_mark is None else f" that begins on line {exc.context_mark.line + 1}"
    if re.search(r"\{.*\$\{", here) and "flow mapping" in context:
        return "between { and }, put ${…} in quotes"
    if _TAB in problem or here[: len(here) - len(here.lstrip())].count("\t"):
        return "a tab cannot indent; indent with spaces"
    if "expected <block end>" in problem:
        return _indentation(problem, context, since, exc, lines)
    if "mapping values are not allowed" in problem:
        return (
            "a colon is not expected here: the line is indented more than the one before it, "
            "or a text with a colon is not in quotes"
        )
    if "could not find expected ':'" in problem:
        return (
            f"the key{since} has no value; write it as `key: value`, with a space after the colon"
        )
    if "flow sequence" in context or "flow mapping" in context or "flow node" in context:
        closing = "]" if "sequence" in context else "}" if "mapping" in context else "] or }"
        return (
            f"a list or mapping in brackets{since} is not closed, or misses a comma; expected , or "
            f"{closing}"
        )
    if "found unexpected end of stream" in problem and "quoted" in context:
        return f"the text in quotes{since} is not closed"
    if "cannot start any token" in problem or "expected alphabetic or numeric" in problem:
        return "a text that begins with this character has to be in quotes"
    if "found undefined alias" in problem:
        return (
            "* begins a reference to an anchor (&), and there is none of this name; put a text "
            "in quotes"
        )
    if "found unknown escape character" in problem:
        return "between \" and \", a backslash begins an escape; put the text between ' and '"
    if "expected a single document" in context + problem:
        return "the file has several documents; remove the line --- before the second one"
    return ""


def _indentation(
    problem: str, context: str, since: str, exc: yaml.MarkedYAMLError, lines: list[str]
) -> str:
    """The words for a line that begins in a column that fits nothing before it."""
    mark = exc.problem_mark
    assert mark is not None
    begun = exc.context_mark
    own = "" if begun is None else f", in column {begun.column + 1}"
    if "<block sequence start>" in problem or "'-'" in problem:
        return (
            f"a list entry (-) stands among the keys of the mapping{since}; indent it below the "
            "key that it belongs to"
        )
    if "block collection" in context or "block sequence" in context:
        return (
            f"this line belongs to no entry of the list{since}; begin it with -, or indent it as "
            "the keys of its entry"
        )
    if "<scalar>" in problem or "<block mapping start>" in problem or begun is None:
        return (
            f"this line begins in column {mark.column + 1}, which fits no line before it; indent "
            f"it as the other keys of the mapping{since}{own}"
        )
    return (
        "something after the value on this line does not belong there; keys of the "
        f"mapping{since} begin{own.removeprefix(',')}"
    )


def _parsers_own(quoted: re.Match[str]) -> str:
    """Keep PyYAML's own tokens (single characters, or in angle brackets); hide the file's text."""
    word = quoted[1] or quoted[2] or ""
    known = len(word) <= 1 or word == _TAB or word.startswith("<")
    return quoted[0] if known else "it"
