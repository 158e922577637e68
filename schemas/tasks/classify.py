"""Classification: the classes of texts, and how likely each is."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Self, final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest, with_common


class Classified(Struct, frozen=True, kw_only=True, gc=False):
    """The classes of one input.

    label:  the most likely one.
    probs:  of each class. labels: their names in the same order; () where the backend names only
            the most likely one.
    """

    label: str
    probs: tuple[float, ...]
    labels: tuple[str, ...] = ()


class Classes(TaskAnswer, frozen=True, kw_only=True, gc=False):
    """results: one per input, in order."""

    results: tuple[Classified, ...]

    def similarity(self, other: TaskAnswer) -> float | None:
        """See TaskAnswer. The share of inputs of the same class."""
        if not isinstance(other, Classes) or len(self.results) != len(other.results):
            return None
        pairs = zip(self.results, other.results, strict=True)
        same = [one.label == theirs.label for one, theirs in pairs]
        return sum(same) / len(same) if same else None


@final
class ClassifyRequest(
    TaskRequest, frozen=True, kw_only=True, tag_field="task", tag="classify", gc=False
):
    """inputs: each is a text, or a pair of texts.

    batch:  the client sent a list of inputs. dialect: whose form the answer has.
    labels: the classes to choose from, for models that have none of their own.
    truncation, raw_scores: as for `RerankRequest`.
    """

    task: ClassVar[Literal["classify"]] = "classify"
    ANSWER: ClassVar[type[TaskAnswer]] = Classes
    FIELDS: ClassVar[tuple[str, ...]] = ("labels", "raw_scores", "truncation", "user")
    CONTENT: ClassVar[frozenset[str]] = frozenset({"input.pairs"})

    inputs: tuple[tuple[str, ...], ...]
    batch: bool = True
    dialect: Literal["common", "tei"] = "common"
    labels: tuple[str, ...] | UnsetType = UNSET
    truncation: bool | UnsetType = UNSET
    raw_scores: bool | UnsetType = UNSET

    @property
    def content(self) -> frozenset[str]:
        """See TaskRequest."""
        return self.CONTENT if any(len(one) > 1 for one in self.inputs) else frozenset()

    @property
    def texts(self) -> Sequence[str]:
        """See TaskRequest."""
        return [text for one in self.inputs for text in one]

    @property
    def items(self) -> int:
        """See TaskRequest."""
        return len(self.inputs)

    def part(self, start: int, end: int) -> Self:
        """See TaskRequest."""
        return replace(self, inputs=self.inputs[start:end])

    def joined(self, answers: Sequence[tuple[int, TaskAnswer]]) -> TaskAnswer:
        """See TaskRequest."""
        results = [
            one for _, answer in answers if isinstance(answer, Classes) for one in answer.results
        ]
        return with_common(Classes(results=tuple(results)), [answer for _, answer in answers])
