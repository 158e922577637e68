"""Pooling: what a model computes of each input, as raw numbers."""

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, Literal, Self, cast, final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from strowger_gateway.schemas.messages import Message, text_of
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest, with_common

Numbers = float | list[float | list[float | list[float]]]
"""A number, a vector, or a vector per token; some models return such lists together."""

_ID_CHARACTERS: Final = 4
"""A token id counts as a token's characters."""
_COMPARED: Final = 16
"""Inputs of which two answers are compared."""

_read: msgspec.json.Decoder[Numbers | str] = msgspec.json.Decoder(Numbers | str)


class Pooled(TaskAnswer, frozen=True, kw_only=True, gc=False):
    """results: one per input, in order: JSON of `Numbers`, or of a base64 string, as received."""

    results: tuple[Raw, ...]

    def similarity(self, other: TaskAnswer) -> float | None:
        """See TaskAnswer. The least cosine similarity; `None` for base64 or other shapes."""
        if not isinstance(other, Pooled) or len(self.results) != len(other.results):
            return None
        pairs = zip(self.results[:_COMPARED], other.results[:_COMPARED], strict=True)
        ours = [(_flat(one), _flat(theirs)) for one, theirs in pairs]
        if not ours or any(not one or len(one) != len(theirs) for one, theirs in ours):
            return None
        return max(0.0, min(_cosine(one, theirs) for one, theirs in ours))


@final
class PoolRequest(TaskRequest, frozen=True, kw_only=True, tag_field="task", tag="pool", gc=False):
    """inputs: each is a text, or token ids. messages: a conversation instead; then no inputs.

    pooling_task:    `embed`, `classify`, `token_embed`, `token_classify`, …; unset: the model's.
    dimensions:      of each vector, at least 1.
    encoding_format: of the results. embed_dtype, endianness: of base64.
    use_activation:  false returns what the model computes before its activation.
    """

    task: ClassVar[Literal["pool"]] = "pool"
    ANSWER: ClassVar[type[TaskAnswer]] = Pooled
    FIELDS: ClassVar[tuple[str, ...]] = (
        "pooling_task",
        "dimensions",
        "encoding_format",
        "embed_dtype",
        "endianness",
        "use_activation",
        "user",
    )
    CONTENT: ClassVar[frozenset[str]] = frozenset({"input.tokens", "messages"})

    inputs: tuple[str | tuple[int, ...], ...] = ()
    messages: tuple[Message, ...] = ()
    pooling_task: str | UnsetType = UNSET
    dimensions: int | UnsetType = UNSET
    encoding_format: Literal["float", "base64"] | UnsetType = UNSET
    embed_dtype: str | UnsetType = UNSET
    endianness: Literal["native", "big", "little"] | UnsetType = UNSET
    use_activation: bool | UnsetType = UNSET

    @property
    def content(self) -> frozenset[str]:
        """See TaskRequest."""
        found = ["messages"] if self.messages else []
        if tuple in map(type, self.inputs):
            found.append("input.tokens")
        return frozenset(found)

    @property
    def texts(self) -> Sequence[str]:
        """See TaskRequest."""
        texts = [one for one in self.inputs if isinstance(one, str)]
        return [*texts, *map(text_of, self.messages)]

    @property
    def characters(self) -> int:
        """See TaskRequest."""
        ids = sum(len(one) for one in self.inputs if isinstance(one, tuple))
        return sum(map(len, self.texts)) + ids * _ID_CHARACTERS

    @property
    def items(self) -> int:
        """See TaskRequest."""
        return len(self.inputs) or 1

    def part(self, start: int, end: int) -> Self:
        """See TaskRequest."""
        return replace(self, inputs=self.inputs[start:end])

    def joined(self, answers: Sequence[tuple[int, TaskAnswer]]) -> TaskAnswer:
        """See TaskRequest."""
        results = [
            one for _, answer in answers if isinstance(answer, Pooled) for one in answer.results
        ]
        return with_common(Pooled(results=tuple(results)), [answer for _, answer in answers])


def _flat(result: Raw) -> list[float]:
    """Return all numbers in order; [] for base64."""
    value = _read.decode(result)
    return [] if isinstance(value, str) else [*_leaves(value)]


def _leaves(value: object) -> Iterator[float]:
    if isinstance(value, list):
        for one in cast("list[object]", value):
            yield from _leaves(one)
    else:
        yield cast("float", value)


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    length = math.hypot(*one) * math.hypot(*other)
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / length if length else 0.0
