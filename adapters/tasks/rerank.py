"""Forms of reranking. Most vendors have taken over Cohere's, and differ in a few names.

https://docs.cohere.com/reference/rerank, https://api.jina.ai/redoc#tag/rerank,
https://docs.voyageai.com/reference/reranker-api,
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#re-rank-api,
https://huggingface.github.io/text-embeddings-inference
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite
from typing import Final
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from strowger_gateway.adapters.json_objects import NULL
from strowger_gateway.adapters.tasks.form import (
    Body,
    NoResults,
    NotAnAnswer,
    Target,
    TaskForm,
    at,
    beside,
    sent,
    under,
)
from strowger_gateway.adapters.tasks.loose import text_in, usage_in
from strowger_gateway.schemas.tasks.rerank import Ranked, Ranking, RerankRequest, best_first
from strowger_gateway.schemas.tasks.task import TaskRequest


class _Result(Struct, frozen=True):
    """relevance_score: Cohere's name. score: that of TEI and SGLang."""

    index: int
    relevance_score: float | None = None
    score: float | None = None


class _Output(Struct, frozen=True):
    results: tuple[_Result, ...]


class _Answer(Struct, frozen=True):
    """The members of all vendors, none of which conflict."""

    results: tuple[_Result, ...] | None = None
    data: tuple[_Result, ...] | None = None
    output: _Output | None = None
    id: Raw = NULL
    request_id: Raw = NULL
    model: Raw = NULL
    usage: Raw = NULL
    meta: Raw = NULL


class _ByPair(Struct, frozen=True):
    """DeepInfra's. https://deepinfra.com/docs"""

    scores: tuple[float, ...]
    request_id: Raw = NULL


# Some servers write numbers as strings.
_read_answer = msgspec.json.Decoder(_Answer | tuple[_Result, ...], strict=False).decode
_read_pairs = msgspec.json.Decoder(_ByPair, strict=False).decode

COHERES_MOST: Final = 1000
"""https://docs.cohere.com/docs/reranking-best-practices"""

TEIS_MOST: Final = 32
"""The default of `--max-client-batch-size`.
https://huggingface.co/docs/text-embeddings-inference/cli_arguments"""


def ranking_of(request: RerankRequest, body: bytes) -> Ranking:
    """Read an object with results, or a bare list of them, as TEI and SGLang answer.

    Those count nothing. Raises UNREADABLE, NotAnAnswer.
    """
    answer = _read_answer(body)
    if not isinstance(answer, _Answer):
        return Ranking(results=_checked(answer, request))
    found = answer.results if answer.results is not None else answer.data
    if found is None and answer.output is not None:
        found = answer.output.results
    if found is None:
        raise NoResults("an answer without results")
    return Ranking(
        results=_checked(found, request),
        model=text_in(answer.model),
        id=text_in(answer.id, answer.request_id),
        usage=usage_in(answer.usage, answer.meta),
    )


def _ranking_by_pairs(request: RerankRequest, body: bytes) -> Ranking:
    answer = _read_pairs(body)
    found = [_Result(place, score) for place, score in enumerate(answer.scores)]
    return Ranking(
        results=_checked(found, request),
        id=text_in(answer.request_id),
        usage=usage_in(Raw(body)),
    )


def _checked(found: Sequence[_Result], request: RerankRequest) -> tuple[Ranked, ...]:
    """Return the results, best first. Raises NotAnAnswer unless they are about the documents."""
    count = len(request.documents)
    wanted = count if request.top_n is UNSET else min(request.top_n, count)
    results: dict[int, Ranked] = {}
    for one in found:
        score = one.score if one.relevance_score is None else one.relevance_score
        if score is None or not isfinite(score):
            raise NotAnAnswer(f"the result of document {one.index} has no score")
        if not 0 <= one.index < count or one.index in results:
            raise NotAnAnswer(f"a result for document {one.index} of {count}")
        results[one.index] = Ranked(index=one.index, score=score)
    if len(results) < wanted:
        raise NotAnAnswer(f"{len(results)} results for {count} documents")
    return best_first(list(results.values()))


def _flat(
    request: RerankRequest, model: str, *, top: str, names: Mapping[str, str], more: Body
) -> Body:
    body: Body = {"model": model, "query": request.query, "documents": request.documents, **more}
    if request.top_n is not UNSET:
        body[top] = min(request.top_n, len(request.documents))
    return body | sent(request, **names)


def flat(
    target: Target,
    *,
    top: str = "top_n",
    names: Mapping[str, str] | None = None,
    more: Body | None = None,
    extra: frozenset[str] = frozenset(),
    most: int | None = None,
) -> TaskForm[RerankRequest]:
    """Return the form of Cohere and those like it.

    top: the vendor's name of `top_n`. names: the fields that it reads, by ours. more: what is sent
    with every request.
    """
    names = names or {}
    return TaskForm(
        kind=RerankRequest,
        target=target,
        body=partial(_flat, top=top, names=names, more=more or {}),
        read=ranking_of,
        fields=frozenset(names),
        extra=extra,
        most=most,
        renamed={ours: theirs for ours, theirs in names.items() if ours != theirs},
    )


def _listed(request: RerankRequest, model: str) -> Body:
    names = {"truncation": "truncate", "raw_scores": "raw_scores"}
    return {"query": request.query, "texts": request.documents} | sent(request, **names)


def _sglangs(request: RerankRequest, model: str) -> Body:
    body: Body = {"model": model, "query": request.query, "documents": request.documents}
    return body | sent(request, instruction="instruct")


def _vllms(request: RerankRequest, model: str) -> Body:
    body = _flat(request, model, top="top_n", names={}, more={})
    if request.raw_scores is not UNSET:
        body["use_activation"] = not request.raw_scores
    return body


def _pairs(request: RerankRequest, model: str) -> Body:
    """The vendor compares each query with the document at its place."""
    queries = (request.query,) * len(request.documents)
    body: Body = {"queries": queries, "documents": request.documents}
    return body | sent(request, "instruction")


def _dashscopes(request: RerankRequest, model: str) -> Body:
    body = _flat(request, model, top="top_n", names={"instruction": "instruct"}, more={})
    if _is_flat(model):
        return body
    given = {name: body.pop(name) for name in ("query", "documents")}
    name = body.pop("model")
    return {"model": name, "input": given, "parameters": {"return_documents": False, **body}}


def _bedrocks(request: RerankRequest, model: str) -> Body:
    """Cohere's models need the version of Cohere's API that the body is of; Amazon's have none."""
    body: Body = {"query": request.query, "documents": request.documents}
    if request.top_n is not UNSET:
        body["top_n"] = min(request.top_n, len(request.documents))
    return body | ({"api_version": 2} if "cohere" in model else {})


def _bedrocks_target(base: str, model: str, request: TaskRequest) -> str:
    return f"{base}/{quote(model, safe='')}/invoke"


def _is_flat(model: str) -> bool:
    """Return whether a model of DashScope has the API that is like Cohere's."""
    return model.startswith("qwen3-rerank")


def _deepinfras_target(base: str, model: str, request: TaskRequest) -> str:
    return f"/v1/inference/{model}"


def _dashscopes_target(base: str, model: str, request: TaskRequest) -> str:
    if _is_flat(model):
        return "/compatible-api/v1/reranks"
    return "/api/v1/services/rerank/text-rerank/text-rerank"


COHERE = flat(
    under("/rerank"),
    names={"max_tokens_per_doc": "max_tokens_per_doc"},
    extra=frozenset({"priority"}),
    most=COHERES_MOST,
)
AZURE = replace(COHERE, target=at("/providers/cohere/v2/rerank"))
"""Cohere's models at Azure.
https://learn.microsoft.com/en-us/azure/ai-foundry/foundry-models/how-to/use-rerank"""

BEDROCK = TaskForm(
    kind=RerankRequest,
    target=_bedrocks_target,
    body=_bedrocks,
    read=ranking_of,
    most=COHERES_MOST,
)
"""https://docs.aws.amazon.com/bedrock/latest/userguide/rerank-use.html: by InvokeModel, at the host
of all models, and not by the API of agents, which has another host."""

JINA = flat(under("/rerank"), more={"return_documents": False}, most=2048)
VOYAGE = flat(under("/rerank"), top="top_k", names={"truncation": "truncation"}, most=COHERES_MOST)
SILICONFLOW = flat(
    under("/rerank"),
    names={"instruction": "instruction", "max_chunks_per_doc": "max_chunks_per_doc"},
    more={"return_documents": False},
)
"""https://docs.siliconflow.cn/en/api-reference/rerank/create-rerank"""

TOGETHER = flat(under("/rerank"))
"""https://docs.together.ai/reference/rerank"""

COMPATIBLE = flat(under("/rerank"))
"""Any other server, as llama.cpp, Infinity, Xinference and LocalAI."""

VLLM = TaskForm(
    kind=RerankRequest,
    target=beside("/rerank"),
    body=_vllms,
    read=ranking_of,
    fields=frozenset({"raw_scores"}),
    extra=frozenset(
        {
            "mm_processor_kwargs",
            "priority",
            "request_id",
            "truncate_prompt_tokens",
            "use_activation",
        }
    ),
    renamed={"raw_scores": "use_activation (the opposite)"},
)
SGLANG = TaskForm(
    kind=RerankRequest,
    target=under("/rerank"),
    body=_sglangs,
    read=ranking_of,
    fields=frozenset({"instruction"}),
    renamed={"instruction": "instruct"},
)
"""https://docs.sglang.ai/supported_models/rerank_models.html"""

TEI = TaskForm(
    kind=RerankRequest,
    target=beside("/rerank"),
    body=_listed,
    read=ranking_of,
    fields=frozenset({"raw_scores", "truncation"}),
    extra=frozenset({"truncation_direction"}),
    most=TEIS_MOST,
    renamed={"truncation": "truncate"},
)
DEEPINFRA = TaskForm(
    kind=RerankRequest,
    target=_deepinfras_target,
    body=_pairs,
    read=_ranking_by_pairs,
    fields=frozenset({"instruction"}),
)
DASHSCOPE = TaskForm(
    kind=RerankRequest,
    target=_dashscopes_target,
    body=_dashscopes,
    read=ranking_of,
    fields=frozenset({"instruction"}),
    most=500,
    renamed={"instruction": "instruct or parameters.instruct"},
)
"""https://www.alibabacloud.com/help/en/model-studio/text-rerank-api"""
