"""How the judge's answer is read: JSON in any wrapping, or a sentence that names the better answer.

A judge may quote an answer that holds a verdict of its own, or end in the middle of its reason, so
a word counts only where a verdict can be, and two different verdicts are none.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, cast

from msgspec import Struct

Verdict = Literal["A", "B", "tie"]

REASON_CHARACTERS: Final = 2_000
_READ_CHARACTERS: Final = 60_000
"""Of the end of an answer. More is no judgement, and reading it takes as long as it is."""

_OBJECTS: Final = 1_000
"""Beginnings of objects that are tried."""


class Judgement(Struct, frozen=True, kw_only=True):
    verdict: Verdict
    reason: str


def read_judgement(text: str) -> Judgement | None:
    """Read a judge's answer; `None` if it has no verdict, or several different ones."""
    said = text[-_READ_CHARACTERS:].rpartition("</think>")[2].strip()
    objects = list(_objects(said))
    if objects:
        verdict = _agreed(map(_of_object, objects))
        reason = objects[-1].get("reason")
        return _judgement(verdict, reason if isinstance(reason, str) else "")
    if _JSON.search(said):
        # Broken JSON, mostly cut: the words in its reason are on the way to a verdict, and none.
        return _judgement(_agreed(map(_word, _FIELD.findall(said))), said)
    bare = _WORDS.get(said.strip(".*\"'[]").lower())
    if bare is not None:
        return _judgement(bare, "")
    return _judgement(
        _agreed(_word(first or second) for first, second in _NAMED.findall(said)), said
    )


def _judgement(verdict: Verdict | None, reason: str) -> Judgement | None:
    if verdict is None:
        return None
    return Judgement(verdict=verdict, reason=reason[:REASON_CHARACTERS])


def _agreed(verdicts: "Iterable[Verdict | None]") -> Verdict | None:
    """Return what all of them say, if they say the same."""
    found = set(verdicts)
    return found.pop() if len(found) == 1 else None


_Object = dict[str, object]
_decode: Final = json.JSONDecoder(strict=False).raw_decode
"""Reads a line break within a string, which models write and JSON forbids."""


def _objects(text: str) -> Iterator[_Object]:
    """Yield the outermost objects in a text that have a verdict; names in lower case."""
    place = text.find("{")
    for _ in range(_OBJECTS):
        if place < 0:
            return
        end = place + 1
        try:
            value, after = cast("tuple[_Object, int]", _decode(text, place))
        except (ValueError, RecursionError):
            pass
        else:
            named = {name.lower(): one for name, one in value.items()}
            if "verdict" in named:
                yield named
                end = after
        place = text.find("{", end)


def _of_object(found: _Object) -> Verdict | None:
    value = found["verdict"]
    if isinstance(value, list) and len(cast("list[object]", value)) == 1:
        (value,) = cast("list[object]", value)
    return _word(value) if isinstance(value, str) else None


_JSON: Final = re.compile(r'\{\s*"')
_FIELD: Final = re.compile(r'(?<!\\)"verdict"\s*:\s*"([^"\\]{1,60})"', re.IGNORECASE)
_NAMED: Final = re.compile(
    r"""(?i:verdict|(?:better|best|preferred)\ answer|winner)\W{1,6}(?i:is\W{1,3})?
        (?i:answer\W{1,3})?
        ((?:A|B|(?i:(?:an?\ +)?(?:tie|draw)))\b(?!\s*(?:/|(?i:or|and)\b)) | [ab](?=\W*$))
    | (?i:answer)\ (A|B)\ is\ (?i:clearly\ |slightly\ |much\ )?(?i:the\ )?(?i:better|best)\b""",
    re.VERBOSE | re.MULTILINE,
)
_LETTERS: Final = re.compile(r"\b[AB]\b")
_NEITHER: Final = re.compile(r"\b(?:tie|tied|draw|equal|equally|both|neither)\b", re.IGNORECASE)
_NOT: Final = re.compile(r"\b(?:not|worse|loses?)\b|n't\b", re.IGNORECASE)
_WORDS: Final[dict[str, Verdict]] = {
    "a": "A", "b": "B", "tie": "tie", "answer a": "A", "answer b": "B",
    "equal": "tie", "both": "tie", "draw": "tie", "neither": "tie",
}  # fmt: skip


def _word(text: str) -> Verdict | None:
    """Read the value of a verdict."""
    word = _WORDS.get(text.strip().strip(".*\"'[]").lower())
    if word is not None:
        return word
    if _NEITHER.search(text):
        return "tie"
    letters = set(_LETTERS.findall(text))
    if len(letters) != 1 or _NOT.search(text):
        return None
    return cast(Verdict, letters.pop())
