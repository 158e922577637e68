"""Write scores and classes."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.pooling.wire import (
    ClassesOfInput,
    ClassList,
    Counts,
    Prediction,
    ScoreList,
    ScoreOfPair,
)
from strowger_gateway.schemas.tasks.classify import Classes, Classified, ClassifyRequest
from strowger_gateway.schemas.tasks.score import ScoreRequest, Scores
from strowger_gateway.schemas.tasks.task import TaskAnswer
from strowger_gateway.schemas.usage import Usage

_encode = msgspec.json.Encoder().encode


class ScoreRenderer:
    """See TaskRenderer. id, created: of the answer."""

    def __init__(self, request: ScoreRequest, *, id: str, created: int) -> None:
        self._request = request
        self._id = id
        self._created = created

    def headers(self, backend: str) -> Headers:
        return []

    def answer(self, answer: TaskAnswer) -> bytes:
        assert isinstance(answer, Scores)
        return _encode(
            ScoreList(
                id=f"score-{self._id}",
                created=self._created,
                model=answer.model or self._request.model,
                data=[
                    ScoreOfPair(index=place, score=score)
                    for place, score in enumerate(answer.scores)
                ],
                usage=counts_of(answer.usage),
            )
        )


class ClassRenderer:
    """See TaskRenderer. id, created: of the answer."""

    def __init__(self, request: ClassifyRequest, *, id: str, created: int) -> None:
        self._request = request
        self._id = id
        self._created = created

    def headers(self, backend: str) -> Headers:
        return []

    def answer(self, answer: TaskAnswer) -> bytes:
        assert isinstance(answer, Classes)
        if self._request.dialect == "tei":
            found = [_by_likelihood(one) for one in answer.results]
            return _encode(found if self._request.batch else found[0])
        return _encode(
            ClassList(
                id=f"classify-{self._id}",
                created=self._created,
                model=answer.model or self._request.model,
                data=[_classes(place, one) for place, one in enumerate(answer.results)],
                usage=counts_of(answer.usage),
            )
        )


def _classes(place: int, found: Classified) -> ClassesOfInput:
    return ClassesOfInput(
        index=place,
        label=found.label,
        probs=found.probs,
        num_classes=len(found.probs),
        prediction=found.label,
        score=max(found.probs, default=0.0),
        predictions=_predictions(found) if found.labels else UNSET,
    )


def _by_likelihood(found: Classified) -> list[Prediction]:
    return sorted(_predictions(found), key=lambda one: -one.score)


def _predictions(found: Classified) -> list[Prediction]:
    """Return the classes by name; those that the backend does not name, by TEI's own default."""
    names: Sequence[str] = found.labels
    if not names:
        best = max(range(len(found.probs)), key=found.probs.__getitem__, default=0)
        names = [
            found.label if place == best and found.label else f"LABEL_{place}"
            for place in range(len(found.probs))
        ]
    return [
        Prediction(label=label, score=score)
        for label, score in zip(names, found.probs, strict=True)
    ]


def counts_of(usage: Usage) -> Counts:
    """Return the tokens that a model has read."""
    tokens = usage.total_tokens or usage.prompt_tokens or 0
    return Counts(prompt_tokens=tokens, total_tokens=tokens)
