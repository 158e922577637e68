"""Forms of classification: vLLM's, TEI's and Jina's.

https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#classification-api,
https://huggingface.github.io/text-embeddings-inference, https://api.jina.ai/redoc#tag/classify
"""

from collections.abc import Sequence
from math import isfinite

import msgspec
from msgspec import Raw, Struct

from strowger_gateway.adapters.json_objects import NULL
from strowger_gateway.adapters.tasks.form import Body, NotAnAnswer, TaskForm, beside, sent, under
from strowger_gateway.adapters.tasks.loose import text_in, usage_in
from strowger_gateway.adapters.tasks.rerank import TEIS_MOST
from strowger_gateway.schemas.errors import InvalidRequest
from strowger_gateway.schemas.tasks.classify import Classes, Classified, ClassifyRequest


class _Probs(Struct, frozen=True):
    """vLLM's."""

    index: int
    label: str | None
    probs: tuple[float, ...]


class _Prediction(Struct, frozen=True):
    """TEI's, and one of Jina's `predictions`."""

    label: str
    score: float


class _Predicted(Struct, frozen=True):
    """Jina's."""

    index: int
    prediction: str
    predictions: tuple[_Prediction, ...] = ()
    score: float | None = None


class _VllmAnswer(Struct, frozen=True):
    data: tuple[_Probs, ...]
    id: Raw = NULL
    model: Raw = NULL
    usage: Raw = NULL


class _JinaAnswer(Struct, frozen=True):
    data: tuple[_Predicted, ...]
    usage: Raw = NULL


_read_vllm = msgspec.json.Decoder(_VllmAnswer, strict=False).decode
_read_jina = msgspec.json.Decoder(_JinaAnswer, strict=False).decode
_read_tei = msgspec.json.Decoder(tuple[tuple[_Prediction, ...], ...], strict=False).decode


def _texts(request: ClassifyRequest) -> list[str]:
    if any(len(one) != 1 for one in request.inputs):
        raise InvalidRequest("input: this backend classifies texts, not pairs", param="input")
    return [one[0] for one in request.inputs]


def _in_order(
    results: Sequence[tuple[int, Classified]], request: ClassifyRequest
) -> tuple[Classified, ...]:
    count, found = len(request.inputs), dict(results)
    if len(results) != count or found.keys() != set(range(count)):
        raise NotAnAnswer(f"{len(results)} results for {count} inputs")
    if not all(isfinite(prob) for one in found.values() for prob in one.probs):
        raise NotAnAnswer("a probability that is not a number")
    return tuple(found[place] for place in range(count))


def _named(predictions: Sequence[_Prediction], best: str = "") -> Classified:
    """Return what was predicted. best: the most likely label, if the vendor says so."""
    if not predictions:
        raise NotAnAnswer("a result without classes")
    return Classified(
        label=best or max(predictions, key=lambda one: one.score).label,
        probs=tuple([one.score for one in predictions]),
        labels=tuple([one.label for one in predictions]),
    )


def _vllms(request: ClassifyRequest, model: str) -> Body:
    body: Body = {"model": model, "input": _texts(request)}
    if not isinstance(request.raw_scores, msgspec.UnsetType):
        body["use_activation"] = not request.raw_scores
    return body


def _vllms_classes(request: ClassifyRequest, body: bytes) -> Classes:
    answer = _read_vllm(body)
    found = [(one.index, Classified(label=one.label or "", probs=one.probs)) for one in answer.data]
    return Classes(
        results=_in_order(found, request),
        model=text_in(answer.model),
        id=text_in(answer.id),
        usage=usage_in(answer.usage),
    )


def _teis(request: ClassifyRequest, model: str) -> Body:
    body: Body = {"inputs": request.inputs}
    return body | sent(request, "raw_scores", truncation="truncate")


def _teis_classes(request: ClassifyRequest, body: bytes) -> Classes:
    found = [(place, _named(one)) for place, one in enumerate(_read_tei(body))]
    return Classes(results=_in_order(found, request))


def _jinas(request: ClassifyRequest, model: str) -> Body:
    if isinstance(request.labels, msgspec.UnsetType):
        raise InvalidRequest(
            "labels: is required: this backend's models have no classes of their own",
            param="labels",
        )
    return {"model": model, "input": _texts(request), "labels": request.labels}


def _jinas_classes(request: ClassifyRequest, body: bytes) -> Classes:
    answer = _read_jina(body)
    found: list[tuple[int, Classified]] = []
    for one in answer.data:
        alone = (_Prediction(one.prediction, one.score or 0.0),)
        found.append((one.index, _named(one.predictions or alone, one.prediction)))
    return Classes(results=_in_order(found, request), usage=usage_in(answer.usage))


VLLM = TaskForm(
    kind=ClassifyRequest,
    target=beside("/classify"),
    body=_vllms,
    read=_vllms_classes,
    fields=frozenset({"raw_scores"}),
    extra=frozenset(
        {
            "add_special_tokens",
            "priority",
            "request_id",
            "truncate_prompt_tokens",
            "use_activation",
        }
    ),
    renamed={"raw_scores": "use_activation (the opposite)"},
)
TEI = TaskForm(
    kind=ClassifyRequest,
    target=beside("/predict"),
    body=_teis,
    read=_teis_classes,
    fields=frozenset({"raw_scores", "truncation", "input.pairs"}),
    extra=frozenset({"truncation_direction"}),
    most=TEIS_MOST,
    renamed={"truncation": "truncate"},
)
JINA = TaskForm(
    kind=ClassifyRequest,
    target=under("/classify"),
    body=_jinas,
    read=_jinas_classes,
    fields=frozenset({"labels"}),
    needs=frozenset({"labels"}),
    most=1024,
)
