"""Refuse tokenizers that make much from little: a text of a few characters must stay small.

A tokenizer.json can replace a character by several, and those again, and repeat the text's tokens.
https://huggingface.co/docs/tokenizers/api/normalizers
"""

from collections.abc import Iterator
from typing import cast

import msgspec
from msgspec import Struct

from strowger_gateway.schemas.errors import InvalidConfig

JSON = dict[str, object]

MOST = 64
"""How much longer replacements may make a text, all together; known tokenizers stay below 8."""

COPIES = 4
"""How often a text may be repeated; known tokenizers do not."""


class _Steps(Struct, frozen=True, kw_only=True):
    """The parts that can lengthen a text; the vocabulary is skipped."""

    normalizer: object = None
    post_processor: object = None


def refuse_growth(description: str) -> None:
    """description: the content of tokenizer.json. Raises InvalidConfig."""
    read = msgspec.json.decode(description, type=_Steps)
    growth = 1.0
    for step in _steps(read.normalizer, "normalizers"):
        if step.get("type") == "Replace":
            growth *= max(1.0, len(str(step.get("content"))) / _shortest(step.get("pattern")))
    if growth > MOST:
        raise InvalidConfig(
            (f"the tokenizer's normalizer makes texts more than {MOST} times as long",)
        )
    copies = 1
    for step in _steps(read.post_processor, "processors"):
        parts = step.get("single")
        if isinstance(parts, list):
            copies *= sum("Sequence" in part for part in cast(list[JSON], parts)) or 1
    if copies > COPIES:
        raise InvalidConfig((f"the tokenizer's post-processor repeats a text {copies} times",))


def _steps(value: object, inner: str) -> Iterator[JSON]:
    """Yield a step, or those of a sequence, however deep."""
    if isinstance(value, dict):
        step = cast(JSON, value)
        yield step
        for one in cast(list[object], step.get(inner) or []):
            yield from _steps(one, inner)


def _shortest(pattern: object) -> int:
    """Return the fewest characters that a pattern matches."""
    text = cast(JSON, pattern).get("String") if isinstance(pattern, dict) else None
    return max(1, len(text)) if isinstance(text, str) else 1
