"""Compare a shadow answer with the real one; a pure function of the two."""

import math
from array import array
from base64 import b64decode
from collections.abc import Sequence

import msgspec

from strowger_gateway.gateway.observability.telemetry.mirror_log_entry import Comparison
from strowger_gateway.schemas.answers import Answer, Choice, Embeddings
from strowger_gateway.schemas.measured_json import NotJson, read_json
from strowger_gateway.schemas.tasks.task import TaskAnswer

INPUTS = 8
"""Vectors of an answer that are compared, the first ones: enough to see a difference, and fast."""


def compared(
    real: Answer | Embeddings | TaskAnswer, shadow: Answer | Embeddings | TaskAnswer
) -> Comparison:
    """Compare two answers of the same kind."""
    if isinstance(real, TaskAnswer) or isinstance(shadow, TaskAnswer):
        assert isinstance(real, TaskAnswer)
        assert isinstance(shadow, TaskAnswer)
        return Comparison(similarity=real.similarity(shadow))
    if isinstance(real, Embeddings) or isinstance(shadow, Embeddings):
        assert isinstance(real, Embeddings)
        assert isinstance(shadow, Embeddings)
        return Comparison(similarity=_similarity(real, shadow))
    ours, theirs = _texts(real), _texts(shadow)
    texts = _has_text(real) and _has_text(shadow)
    values = [_value(text) for text in ours] if texts else []
    calls = [_calls(choice) for choice in real.choices]
    their_calls = [_calls(choice) for choice in shadow.choices]
    return Comparison(
        same_text=ours == theirs if texts else None,
        same_tokens=_same_tokens(real, shadow),
        same_json=None if None in values or not values else values == [*map(_value, theirs)],
        same_calls=calls == their_calls if any(calls) or any(their_calls) else None,
        same_finish=_finishes(real) == _finishes(shadow),
        characters=sum(map(len, ours)),
        mirror_characters=sum(map(len, theirs)),
    )


def _has_text(answer: Answer) -> bool:
    """True unless the answer has only token ids: some backends return tokens without text.

    An answer without text and tokens has empty text.
    """
    return any(choice.text for choice in answer.choices) or not any(
        choice.token_ids for choice in answer.choices
    )


def _same_tokens(real: Answer, shadow: Answer) -> bool | None:
    ours = [choice.token_ids for choice in real.choices]
    theirs = [choice.token_ids for choice in shadow.choices]
    return ours == theirs if any(ours) and any(theirs) else None


def _texts(answer: Answer) -> list[str]:
    return [choice.text or "" for choice in answer.choices]


def _value(text: str) -> bytes | None:
    """Normalise JSON; `None` if the text is not valid JSON, or too much of it."""
    try:
        return msgspec.json.encode(read_json(text), order="deterministic")
    except (NotJson, RecursionError):
        return None


def _calls(choice: Choice) -> list[tuple[str, bytes | str]]:
    return [(call.name, _value(call.arguments) or call.arguments) for call in choice.tool_calls]


def _finishes(answer: Answer) -> list[str]:
    return [choice.finish.reason if choice.finish else "" for choice in answer.choices]


def _similarity(real: Embeddings, shadow: Embeddings) -> float | None:
    """Return the least cosine similarity; `None` without vectors, or if lengths differ."""
    pairs = list(zip(real.vectors[:INPUTS], shadow.vectors[:INPUTS], strict=False))
    ours = [(_numbers(one), _numbers(other)) for one, other in pairs]
    if not ours or any(len(one) != len(other) for one, other in ours):
        return None
    return min(_cosine(one, other) for one, other in ours)


def _numbers(vector: list[float] | str) -> Sequence[float]:
    if isinstance(vector, str):
        return array("f", b64decode(vector))
    return vector


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    length = math.hypot(*one) * math.hypot(*other)
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / length if length else 0.0
