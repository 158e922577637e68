"""Forms of scoring pairs of texts: vLLM's own, and that of vendors that only rerank.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#score-api
"""

from math import isfinite

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import NULL
from strowger_gateway.adapters.tasks.form import Body, NotAnAnswer, TaskForm, beside, sent
from strowger_gateway.adapters.tasks.loose import text_in, usage_in
from strowger_gateway.adapters.tasks.rerank import DEEPINFRA as RERANK_OF_DEEPINFRA
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.tasks.rerank import Ranking, RerankRequest
from strowger_gateway.schemas.tasks.score import ScoreRequest, Scores


class _Score(Struct, frozen=True):
    index: int
    score: float


class _Answer(Struct, frozen=True):
    data: tuple[_Score, ...]
    id: Raw = NULL
    model: Raw = NULL
    usage: Raw = NULL


class _Listed(Struct, frozen=True):
    """DeepInfra's."""

    scores: tuple[float, ...]
    request_id: Raw = NULL


_read = msgspec.json.Decoder(_Answer, strict=False).decode
_read_listed = msgspec.json.Decoder(_Listed, strict=False).decode


def _in_order(pairs: dict[int, float], count: int) -> tuple[float, ...]:
    if pairs.keys() != set(range(count)):
        raise NotAnAnswer(f"{len(pairs)} scores for {count} pairs")
    if not all(map(isfinite, pairs.values())):
        raise NotAnAnswer("a score that is not a number")
    return tuple(pairs[place] for place in range(count))


def _vllms(request: ScoreRequest, model: str) -> Body:
    several = len(request.queries) > 1
    one = request.queries if several else request.queries[0]
    body: Body = {"model": model, "text_1": one, "text_2": request.documents}
    if not isinstance(request.raw_scores, msgspec.UnsetType):
        body["use_activation"] = not request.raw_scores
    return body


def _vllms_scores(request: ScoreRequest, body: bytes) -> Scores:
    answer = _read(body)
    found = {one.index: one.score for one in answer.data}
    if len(found) != len(answer.data):
        raise NotAnAnswer("several scores for one pair")
    return Scores(
        scores=_in_order(found, len(request.documents)),
        model=text_in(answer.model),
        id=text_in(answer.id),
        usage=usage_in(answer.usage),
    )


def _deepinfras(request: ScoreRequest, model: str) -> Body:
    queries = request.queries
    if len(queries) == 1:
        queries *= len(request.documents)
    return {"queries": queries, "documents": request.documents} | sent(request, "instruction")


def _deepinfras_scores(request: ScoreRequest, body: bytes) -> Scores:
    answer = _read_listed(body)
    return Scores(
        scores=_in_order(dict(enumerate(answer.scores)), len(request.documents)),
        id=text_in(answer.request_id),
        usage=usage_in(Raw(body)),
    )


VLLM = TaskForm(
    kind=ScoreRequest,
    target=beside("/score"),
    body=_vllms,
    read=_vllms_scores,
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
DEEPINFRA = TaskForm(
    kind=ScoreRequest,
    target=RERANK_OF_DEEPINFRA.target,
    body=_deepinfras,
    read=_deepinfras_scores,
    fields=frozenset({"instruction"}),
)


def score_by(form: TaskForm[RerankRequest]) -> TaskForm[ScoreRequest]:
    """Return the form by which a vendor that only reranks scores one text with many.

    A cross-encoder gives a document the same score either way.
    """

    def body(request: ScoreRequest, model: str) -> Body:
        return form.body(_ranking_of(request), model)

    def read(request: ScoreRequest, answer: bytes) -> Scores:
        ranking = form.read(_ranking_of(request), answer)
        assert isinstance(ranking, Ranking)
        found = {one.index: one.score for one in ranking.results}
        return Scores(
            scores=_in_order(found, len(request.documents)),
            model=ranking.model,
            id=ranking.id,
            usage=ranking.usage,
        )

    known = frozenset(ScoreRequest.FIELDS)
    return TaskForm(
        kind=ScoreRequest,
        target=form.target,
        body=body,
        read=read,
        fields=form.fields & known,
        extra=form.extra,
        most=form.most,
        renamed={name: path for name, path in form.renamed.items() if name in known},
    )


def _ranking_of(request: ScoreRequest) -> RerankRequest:
    query, *others = request.queries
    if any(other != query for other in others):
        raise InvalidRequest(
            "text_1: this backend scores one text with many, not many pairs; send one request for "
            "each text",
            param="text_1",
        )
    return RerankRequest(
        model=request.model,
        query=query,
        documents=request.documents,
        instruction=request.instruction,
        truncation=request.truncation,
        raw_scores=request.raw_scores,
    )
