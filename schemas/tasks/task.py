"""Requests with one whole answer that is neither text nor vectors, and those answers.

The request path, plans, limits, records and the cache know these two types and none of the tasks:
reranking, scoring, classification, pooling and moderation are a type each in this folder, a form
per vendor in `adapters/tasks`, and a surface.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import ClassVar, Final, Literal, Self

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from strowger_gateway.schemas.usage import Usage

_CHUNK_CHARACTERS: Final = 2000
"""Of 500 tokens."""
_UNIT_CHUNKS: Final = 100

TaskName = Literal["rerank", "score", "classify", "pool", "moderate"]


class TaskAnswer(Struct, frozen=True, kw_only=True, gc=False):
    """usage: its `raw` may name the vendor's search units; see `searched`."""

    model: str = ""
    id: str = ""
    usage: Usage = Usage()

    def similarity(self, other: "TaskAnswer") -> float | None:
        """Return how much alike two answers to one request are, 0 … 1; `None`: not comparable."""
        raise NotImplementedError


class Unsampled(Struct, frozen=True, gc=False):
    """The base of requests with one whole answer: one quick question instead of one for each."""


class TaskRequest(Unsampled, frozen=True, kw_only=True, gc=False):
    """FIELDS: names of fields that a backend may lack, each `UNSET` if the client did not send it.

    CONTENT: kinds of content that a backend may not read.
    optional: fields that may be omitted if no backend honours them.
    ANSWER: the type of its answers.
    """

    task: ClassVar[TaskName]
    ANSWER: ClassVar[type[TaskAnswer]]
    FIELDS: ClassVar[tuple[str, ...]] = ()
    CONTENT: ClassVar[frozenset[str]] = frozenset()
    stream: ClassVar[Literal[False]] = False
    priority: ClassVar[UnsetType] = UNSET

    model: str
    user: str | UnsetType = UNSET
    timeout_s: float | UnsetType = UNSET
    extra: dict[str, Raw] = {}
    optional: tuple[str, ...] = ()

    @property
    def values(self) -> tuple[object, ...]:
        """Return the values of `FIELDS`, in order."""
        return tuple([getattr(self, field) for field in self.FIELDS])

    @property
    def content(self) -> frozenset[str]:
        """Return the kinds of content, of `CONTENT`, that the request has."""
        return frozenset()

    @property
    def texts(self) -> Sequence[str]:
        """Return all texts, the one that decides first."""
        raise NotImplementedError

    @property
    def characters(self) -> int:
        """Return the characters that a model reads, each text as often as it reads it."""
        return sum(map(len, self.texts))

    @property
    def searches(self) -> int:
        """Return the estimated search units, for vendors that bill by them; 0: none does."""
        return 0

    @property
    def items(self) -> int:
        """Return how many inputs it has of the kind that vendors limit: documents, pairs, texts."""
        raise NotImplementedError

    def part(self, start: int, end: int) -> Self:
        """Return the request with these of its items only."""
        raise NotImplementedError

    def joined(self, answers: Sequence[tuple[int, TaskAnswer]]) -> TaskAnswer:
        """Join the answers to parts, each with the place of its first item, in order."""
        raise NotImplementedError


class _Searches(Struct, frozen=True):
    search_units: float | None = None


_searches = msgspec.json.Decoder(_Searches).decode


def search_units(queries: Sequence[str], documents: Sequence[str]) -> int:
    """Estimate the search units of ranking documents by one query, or by one for each.

    A unit is a query with up to 100 documents; one that is longer than 500 tokens, the query
    included, counts once for each 500. https://cohere.com/pricing
    """
    alone = len(queries) == 1
    longest = max(map(len, queries), default=0) + max(map(len, documents), default=0)
    if longest <= _CHUNK_CHARACTERS:
        return -(-len(documents) // _UNIT_CHUNKS)
    lengths = repeat(len(queries[0])) if alone else map(len, queries)
    chunks = [
        max(1, -(-(query + len(text)) // _CHUNK_CHARACTERS))
        for query, text in zip(lengths, documents, strict=not alone)
    ]
    return -(-sum(chunks) // _UNIT_CHUNKS)


def searched(units: float) -> Raw:
    """Return the vendor's own usage object of an answer that is billed by search units.

    Cohere's unit is a query with up to 100 documents. https://docs.cohere.com/docs/rerank
    """
    return Raw(msgspec.json.encode({"search_units": units}))


def searches_of(usage: Usage) -> float | None:
    """Return the search units of an answer; `None` if it is not billed by them."""
    if usage.raw is None or b'"search_units"' not in bytes(usage.raw):
        return None
    try:
        return _searches(usage.raw).search_units
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def with_common(whole: TaskAnswer, parts: Sequence[TaskAnswer]) -> TaskAnswer:
    """Return the whole answer with what its parts used together, and the first one's names.

    A count is known only if every part has it.
    """
    usages = [one.usage for one in parts]
    searches = _sum([searches_of(one) for one in usages])
    usage = Usage(
        prompt_tokens=_whole(_sum([one.prompt_tokens for one in usages])),
        completion_tokens=_whole(_sum([one.completion_tokens for one in usages])),
        total_tokens=_whole(_sum([one.total_tokens for one in usages])),
        raw=None if searches is None else searched(searches),
    )
    return replace(whole, model=parts[0].model, id=parts[0].id, usage=usage)


def _sum(counts: Sequence[float | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _whole(count: float | None) -> int | None:
    return None if count is None else int(count)
