"""Moderation: whether texts and images are harmful, and in which way."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, Self, final

from msgspec import Struct
from msgspec.structs import replace

from strowger_gateway.schemas.messages import ImagePart, Message, TextPart, text_of
from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest, with_common

Piece = TextPart | ImagePart


class Verdict(Struct, frozen=True, kw_only=True, gc=False):
    """What was found in one input.

    flagged:    it is harmful by the backend's own thresholds.
    categories: by the backend's names, whether the input belongs to it; `None`: it was not checked.
    scores:     by the same names, 0 … 1; {} if the backend has none.
    read:       by the same names, the kinds of input that were read for it: `text`, `image`.
    """

    flagged: bool
    categories: Mapping[str, bool | None]
    scores: Mapping[str, float]
    read: Mapping[str, tuple[str, ...]] = {}


class Moderation(TaskAnswer, frozen=True, kw_only=True, gc=False):
    """results: one per input, in order."""

    results: tuple[Verdict, ...]

    def similarity(self, other: TaskAnswer) -> float | None:
        """See TaskAnswer. The share of inputs about which both agree."""
        if not isinstance(other, Moderation) or len(self.results) != len(other.results):
            return None
        pairs = zip(self.results, other.results, strict=True)
        same = [one.flagged == theirs.flagged for one, theirs in pairs]
        return sum(same) / len(same) if same else None


@final
class ModerateRequest(
    TaskRequest, frozen=True, kw_only=True, tag_field="task", tag="moderate", gc=False
):
    """inputs: each is judged by itself: a text, or a text with images.

    conversations: the last message of each is judged; then there are no inputs.
    """

    task: ClassVar[Literal["moderate"]] = "moderate"
    ANSWER: ClassVar[type[TaskAnswer]] = Moderation
    FIELDS: ClassVar[tuple[str, ...]] = ("user",)
    CONTENT: ClassVar[frozenset[str]] = frozenset({"input.images", "conversations"})

    inputs: tuple[tuple[Piece, ...], ...] = ()
    conversations: tuple[tuple[Message, ...], ...] = ()

    @property
    def content(self) -> frozenset[str]:
        """See TaskRequest."""
        found: list[str] = ["conversations"] if self.conversations else []
        if any(isinstance(piece, ImagePart) for one in self.inputs for piece in one):
            found.append("input.images")
        return frozenset(found)

    @property
    def texts(self) -> Sequence[str]:
        """See TaskRequest."""
        pieces = [piece for one in self.inputs for piece in one]
        texts = [piece.text for piece in pieces if isinstance(piece, TextPart)]
        return [*texts, *(text_of(one) for said in self.conversations for one in said)]

    @property
    def items(self) -> int:
        """See TaskRequest."""
        return len(self.inputs) or len(self.conversations)

    def part(self, start: int, end: int) -> Self:
        """See TaskRequest."""
        return replace(
            self, inputs=self.inputs[start:end], conversations=self.conversations[start:end]
        )

    def joined(self, answers: Sequence[tuple[int, TaskAnswer]]) -> TaskAnswer:
        """See TaskRequest."""
        results = [
            one for _, answer in answers if isinstance(answer, Moderation) for one in answer.results
        ]
        return with_common(Moderation(results=tuple(results)), [answer for _, answer in answers])
