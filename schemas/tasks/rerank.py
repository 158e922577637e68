"""Reranking: documents in the order in which they answer a query."""

from collections.abc import Sequence
from typing import ClassVar, Final, Literal, Self, final

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.schemas.tasks.task import TaskAnswer, TaskRequest, search_units, with_common

RerankDialect = Literal["common", "cohere", "voyage", "tei"]

COMPARED: Final = 32
"""Results of an answer that are compared with those of another, the best ones."""


class Ranked(Struct, frozen=True, kw_only=True, gc=False):
    """index: the document's, from 0. score: higher is better; vendors' scales differ."""

    index: int
    score: float


class Ranking(TaskAnswer, frozen=True, kw_only=True, gc=False):
    """results: the best first; documents with equal scores in the client's order."""

    results: tuple[Ranked, ...]

    def similarity(self, other: TaskAnswer) -> float | None:
        """See TaskAnswer. The share of pairs of documents that both have in the same order."""
        if not isinstance(other, Ranking):
            return None
        theirs = {one.index: place for place, one in enumerate(other.results[:COMPARED])}
        both = [theirs[one.index] for one in self.results[:COMPARED] if one.index in theirs]
        pairs = [one < later for place, one in enumerate(both) for later in both[place + 1 :]]
        return sum(pairs) / len(pairs) if pairs else None


@final
class RerankRequest(
    TaskRequest, frozen=True, kw_only=True, tag_field="task", tag="rerank", gc=False
):
    """documents: their texts, as models read them.

    dialect:  whose form the answer has; `common`: Jina's, vLLM's and Cohere's first.
    originals: the documents as the client sent them, where they are objects; () for texts.
    top_n: how many results the client gets; `UNSET`: one for each document.
    return_documents: the client gets each document with its score.
    instruction: what makes a document a good one, for models that read it.
    max_chunks_per_doc, max_tokens_per_doc: how much of a long document is read.
    truncation: what is too long is cut; if false, it is an error.
    raw_scores: scores without the sigmoid.
    """

    task: ClassVar[Literal["rerank"]] = "rerank"
    ANSWER: ClassVar[type[TaskAnswer]] = Ranking
    FIELDS: ClassVar[tuple[str, ...]] = (
        "instruction",
        "max_chunks_per_doc",
        "max_tokens_per_doc",
        "raw_scores",
        "truncation",
        "user",
    )

    query: str
    documents: tuple[str, ...]
    dialect: RerankDialect = "common"
    originals: tuple[Raw, ...] = ()
    top_n: int | UnsetType = UNSET
    return_documents: bool = False
    instruction: str | UnsetType = UNSET
    max_chunks_per_doc: int | UnsetType = UNSET
    max_tokens_per_doc: int | UnsetType = UNSET
    truncation: bool | UnsetType = UNSET
    raw_scores: bool | UnsetType = UNSET

    @property
    def texts(self) -> Sequence[str]:
        """See TaskRequest."""
        return (self.query, *self.documents)

    @property
    def characters(self) -> int:
        """See TaskRequest. A cross-encoder reads the query with every document."""
        return len(self.query) * len(self.documents) + sum(map(len, self.documents))

    @property
    def searches(self) -> int:
        """See TaskRequest."""
        return search_units((self.query,), self.documents)

    @property
    def items(self) -> int:
        """See TaskRequest."""
        return len(self.documents)

    def part(self, start: int, end: int) -> Self:
        """See TaskRequest. Scores of parts are comparable: a document has no part in another's."""
        return replace(self, documents=self.documents[start:end], originals=())

    def joined(self, answers: Sequence[tuple[int, TaskAnswer]]) -> TaskAnswer:
        """See TaskRequest."""
        found = [
            Ranked(index=start + one.index, score=one.score)
            for start, answer in answers
            if isinstance(answer, Ranking)
            for one in answer.results
        ]
        whole = Ranking(results=best_first(found))
        return with_common(whole, [answer for _, answer in answers])


def best_first(results: Sequence[Ranked]) -> tuple[Ranked, ...]:
    """Return the results by score; equal ones in the order of the documents."""
    return tuple(sorted(results, key=lambda one: (-one.score, one.index)))
