"""The model of the fake MindIE server: a small vocabulary and predictable answers.

The answer to a prompt starts at a word that depends on the prompt's ids, and continues through the
vocabulary for `WORDS_AN_ANSWER` words; then comes the end token, which has an id but no text. So
the same prompt always gets the same answer, and two prompts nearly always different ones.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import cast
from zlib import crc32

Said = tuple[int, str]
"""A generated token's id and text."""

Speaker = Callable[[Sequence[int]], Sequence[Said]]
"""Maps a prompt's ids to the answer's tokens, with the end token if there is one."""

FIRST_ID = 100
END_ID = 2
WORDS_AN_ANSWER = 6
WORDS = tuple(
    " the a of light over small hills and rivers, where old engines wait for tea at noon"
    " while naïve gulls turn slowly in 北京 air; nobody minds.".replace(" ", "\0 ").split("\0")[1:]
)


def says(prompt: Sequence[int]) -> tuple[Said, ...]:
    """See `Speaker`."""
    start = sum(prompt) % len(WORDS)
    places = [(start + step) % len(WORDS) for step in range(WORDS_AN_ANSWER)]
    return *((FIRST_ID + place, WORDS[place]) for place in places), (END_ID, "")


def saying(*said: Said) -> Speaker:
    """Return a model with the same answer to every prompt."""
    return lambda prompt: said


def tokens_of(text: str) -> list[int]:
    """Encode a text prompt, one id per word."""
    return [FIRST_ID + len(WORDS) + crc32(word.encode()) % 1000 for word in text.split()]


def text_of(said: Sequence[Said]) -> str:
    return "".join(text for _, text in said)


def example(schema: object) -> object:
    """Return the simplest value of a JSON schema, for the types that tests use."""
    if not isinstance(schema, dict):
        return "x"
    known = cast("dict[str, object]", schema)
    if known.get("enum"):
        return cast("list[object]", known["enum"])[0]
    match known.get("type"):
        case "object":
            properties = cast("Mapping[str, object]", known.get("properties") or {})
            return {name: example(one) for name, one in properties.items()}
        case "array":
            return [example(known.get("items"))]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "x"


def example_text(schema: object) -> str:
    return json.dumps(example(schema), ensure_ascii=False)
