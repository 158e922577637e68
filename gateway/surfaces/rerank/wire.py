"""The bodies of reranking, in the words of all vendors. A null counts as absent.

https://docs.cohere.com/reference/rerank, https://docs.cohere.com/v1/reference/rerank,
https://api.jina.ai/redoc, https://docs.voyageai.com/reference/reranker-api,
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#re-rank-api,
https://huggingface.github.io/text-embeddings-inference
"""

from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType

from strowger_gateway.gateway.surfaces.decoding import MODEL_NAME
from strowger_gateway.gateway.surfaces.openai.wire import Count, Model, Natural, Seconds

Document = str | dict[str, Raw]


class RerankWire(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A query, and the documents to rank by how well they answer it.

    documents: texts, or objects with a `text`, or with what `rank_fields` names.
    texts:     TEI's name of documents; its answer is a bare list.
    top_n:     how many results to return; 0 is all, as vLLM has it. top_k: Voyage's name.
    instruction, instruct: what makes a document a good one.
    truncation, truncate: cut what is too long.
    raw_scores: scores without the sigmoid.
    stream: not true, as the answer is always whole.
    """

    query: Document
    model: Model | None = None
    documents: tuple[Document, ...] | None = None
    texts: tuple[Document, ...] | None = None
    top_n: Natural | None = None
    top_k: Natural | None | UnsetType = UNSET
    return_documents: bool | None = None
    return_text: bool | None = None
    rank_fields: tuple[str, ...] | None = None
    max_chunks_per_doc: Count | None = None
    max_tokens_per_doc: Count | None = None
    truncation: bool | None | UnsetType = UNSET
    truncate: bool | None = None
    raw_scores: bool | None = None
    instruction: str | None = None
    instruct: str | None = None
    stream: bool | None = None
    user: str | None = None
    timeout: Seconds | None = None


_DOCUMENT: Final = "a string, or an object with the string `text`"

ALLOWED: Final[dict[str, str]] = {
    "model": MODEL_NAME,
    "query": _DOCUMENT,
    "documents": "a list of strings, or of objects with the string `text`",
    "documents[]": _DOCUMENT,
    "texts": "a list of strings",
    "texts[]": _DOCUMENT,
    "top_n": "an integer of 0 or more",
    "top_k": "an integer of 0 or more",
    "rank_fields": "a list of strings",
    "rank_fields[]": "a string",
    "max_chunks_per_doc": "an integer of 1 or more",
    "max_tokens_per_doc": "an integer of 1 or more",
    "stream": "true or false",
    "timeout": "seconds, a number above 0 and up to 3600",
}


class Result(Struct, frozen=True, kw_only=True):
    """index: the document's place in the request."""

    index: int
    relevance_score: float
    document: Raw | UnsetType = UNSET


class BilledUnits(Struct, frozen=True, kw_only=True):
    """What the answer is billed by."""

    search_units: float | UnsetType = UNSET
    input_tokens: int | UnsetType = UNSET


class Version(Struct, frozen=True, kw_only=True):
    version: str


class Meta(Struct, frozen=True, kw_only=True):
    """Cohere's."""

    api_version: Version
    billed_units: BilledUnits


class RankingTokens(Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    total_tokens: int


class CohereRanking(Struct, frozen=True, kw_only=True):
    """The results, best first. Cohere, version 2."""

    id: str
    results: list[Result]
    meta: Meta


class RankingBody(Struct, frozen=True, kw_only=True):
    """The results, best first. Cohere's version 1, Jina, vLLM, and all like them."""

    id: str
    object: str = "list"
    model: str
    results: list[Result]
    usage: RankingTokens
    meta: Meta


class VoyageResult(Struct, frozen=True, kw_only=True):
    relevance_score: float
    index: int
    document: str | UnsetType = UNSET


class VoyageTokens(Struct, frozen=True, kw_only=True):
    total_tokens: int


class VoyageRanking(Struct, frozen=True, kw_only=True):
    """The results, best first. Voyage's."""

    object: str = "list"
    data: list[VoyageResult]
    model: str
    usage: VoyageTokens


class TeiResult(Struct, frozen=True, kw_only=True):
    """TEI's answer is a list of these, best first."""

    index: int
    score: float
    text: str | UnsetType = UNSET
