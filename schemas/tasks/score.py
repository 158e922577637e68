"""Scores of pairs of texts: how well the second one answers, or resembles, the first."""

from collections.abc import Sequence
from typing import ClassVar, Literal, Self, final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest, search_units, with_common


class Scores(TaskAnswer, frozen=True, kw_only=True, gc=False):
    """scores: one per pair, in order."""

    scores: tuple[float, ...]

    def similarity(self, other: TaskAnswer) -> float | None:
        """See TaskAnswer. 1 less the mean difference of scores from 0 to 1."""
        if not isinstance(other, Scores) or len(self.scores) != len(other.scores):
            return None
        apart = [abs(a - b) for a, b in zip(self.scores, other.scores, strict=True)]
        mean = sum(apart) / len(apart) if apart else 0.0
        return 1.0 - mean if mean <= 1.0 else None


@final
class ScoreRequest(TaskRequest, frozen=True, kw_only=True, tag_field="task", tag="score", gc=False):
    """queries: one for all documents, or one for each.

    instruction, truncation, raw_scores: as for `RerankRequest`.
    """

    task: ClassVar[Literal["score"]] = "score"
    ANSWER: ClassVar[type[TaskAnswer]] = Scores
    FIELDS: ClassVar[tuple[str, ...]] = ("instruction", "raw_scores", "truncation", "user")

    queries: tuple[str, ...]
    documents: tuple[str, ...]
    instruction: str | UnsetType = UNSET
    truncation: bool | UnsetType = UNSET
    raw_scores: bool | UnsetType = UNSET

    @property
    def texts(self) -> Sequence[str]:
        """See TaskRequest."""
        return (*self.queries, *self.documents)

    @property
    def characters(self) -> int:
        """See TaskRequest."""
        times = len(self.documents) if len(self.queries) == 1 else 1
        return sum(map(len, self.queries)) * times + sum(map(len, self.documents))

    @property
    def searches(self) -> int:
        """See TaskRequest."""
        return search_units(self.queries, self.documents)

    @property
    def items(self) -> int:
        """See TaskRequest."""
        return len(self.documents)

    def part(self, start: int, end: int) -> Self:
        """See TaskRequest."""
        queries = self.queries if len(self.queries) == 1 else self.queries[start:end]
        return replace(self, queries=queries, documents=self.documents[start:end])

    def joined(self, answers: Sequence[tuple[int, TaskAnswer]]) -> TaskAnswer:
        """See TaskRequest."""
        scores = [
            score for _, answer in answers if isinstance(answer, Scores) for score in answer.scores
        ]
        return with_common(Scores(scores=tuple(scores)), [answer for _, answer in answers])
