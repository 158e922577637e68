"""Write rankings in the form of the vendor whose request the client has sent."""

from collections.abc import Sequence
from typing import assert_never

import msgspec
from msgspec import UNSET, Raw, UnsetType

from strowger_gateway.gateway.surfaces.base import Headers
from strowger_gateway.gateway.surfaces.rerank.wire import (
    BilledUnits,
    CohereRanking,
    Meta,
    RankingBody,
    RankingTokens,
    Result,
    TeiResult,
    Version,
    VoyageRanking,
    VoyageResult,
    VoyageTokens,
)
from strowger_gateway.schemas.tasks.rerank import Ranked, Ranking, RerankRequest
from strowger_gateway.schemas.tasks.task import TaskAnswer, searches_of
from strowger_gateway.schemas.usage import Usage

_encode = msgspec.json.Encoder().encode


class RankingRenderer:
    """See TaskRenderer. id: of the answer."""

    def __init__(self, request: RerankRequest, *, id: str) -> None:
        self._request = request
        self._id = id

    def headers(self, backend: str) -> Headers:
        return []

    def answer(self, answer: TaskAnswer) -> bytes:
        """Write the best results, as many as the client wants; `top_n` binds no backend."""
        assert isinstance(answer, Ranking)
        request, results, usage = self._request, answer.results, answer.usage
        if request.top_n is not UNSET:
            results = results[: request.top_n]
        match request.dialect:
            case "cohere":
                body: object = CohereRanking(
                    id=self._id, results=self._results(results), meta=_meta("2", usage)
                )
            case "common":
                body = RankingBody(
                    id=self._id,
                    model=answer.model or request.model,
                    results=self._results(results),
                    usage=RankingTokens(prompt_tokens=_tokens(usage), total_tokens=_tokens(usage)),
                    meta=_meta("1", usage),
                )
            case "voyage":
                body = VoyageRanking(
                    data=[
                        VoyageResult(
                            relevance_score=one.score,
                            index=one.index,
                            document=self._text(one.index),
                        )
                        for one in results
                    ],
                    model=answer.model or request.model,
                    usage=VoyageTokens(total_tokens=_tokens(usage)),
                )
            case "tei":
                body = [
                    TeiResult(index=one.index, score=one.score, text=self._text(one.index))
                    for one in results
                ]
            case _:
                assert_never(request.dialect)
        return _encode(body)

    def _results(self, results: Sequence[Ranked]) -> list[Result]:
        return [
            Result(index=one.index, relevance_score=one.score, document=self._document(one.index))
            for one in results
        ]

    def _document(self, place: int) -> Raw | UnsetType:
        request = self._request
        if not request.return_documents:
            return UNSET
        if request.originals:
            return request.originals[place]
        return Raw(_encode({"text": request.documents[place]}))

    def _text(self, place: int) -> str | UnsetType:
        return self._request.documents[place] if self._request.return_documents else UNSET


def _tokens(usage: Usage) -> int:
    """Return the tokens that were read: all of them are the prompt's."""
    return usage.total_tokens or usage.prompt_tokens or 0


def _meta(version: str, usage: Usage) -> Meta:
    searches = searches_of(usage)
    units = (
        BilledUnits(input_tokens=_tokens(usage))
        if searches is None
        else BilledUnits(search_units=searches)
    )
    return Meta(api_version=Version(version=version), billed_units=units)
