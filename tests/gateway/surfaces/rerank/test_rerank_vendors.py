"""Reranking by the backends of all vendors, each with its own names and its own answer."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.gateway.surfaces.rerank.setting import (
    DOCUMENTS,
    ORDER,
    QUERY,
    Json,
    Setting,
    order,
    rerank_setting,
)

pytestmark = pytest.mark.anyio

VENDORS = (
    *("cohere", "jina", "voyage", "siliconflow", "together", "vllm", "sglang", "tei", "llama"),
    *("deepinfra", "dashscope", "gte", "azure", "bedrock", "tokenized"),
)


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with rerank_setting(tmp_path_factory.mktemp("run")) as one:
        yield one


@pytest.mark.parametrize("model", VENDORS)
async def test_every_vendor_ranks_the_clients_documents(setting: Setting, model: str) -> None:
    answer = await setting.rank(model)

    assert order(answer) == ORDER
    results = cast("list[Json]", answer["results"])
    assert [one["document"] for one in results] == [{"text": DOCUMENTS[one]} for one in ORDER]
    assert results[0]["relevance_score"] == 1.0
    usage = cast("Json", answer["usage"])
    assert cast("int", usage["total_tokens"]) > 0


@pytest.mark.parametrize("model", VENDORS)
async def test_the_client_gets_as_many_results_as_it_wants(setting: Setting, model: str) -> None:
    assert order(await setting.rank(model, top_n=2)) == ORDER[:2]
    assert order(await setting.rank(model, top_n=99)) == ORDER
    assert order(await setting.rank(model, top_n=0)) == ORDER


@pytest.mark.parametrize("model", VENDORS)
async def test_every_vendor_scores_one_text_with_many(setting: Setting, model: str) -> None:
    body: Json = {"model": model, "text_1": QUERY, "text_2": DOCUMENTS}

    answer = await setting.ask("/v1/score", body)

    assert answer.status_code == 200, answer.text
    scores = [one["score"] for one in answer.json()["data"]]
    assert scores == [0.3333, 1.0, 0.0, 0.6667]


async def test_more_documents_than_a_backend_takes_are_sent_in_parts(setting: Setting) -> None:
    documents = [f"document {place}" for place in range(70)]
    documents[68] = QUERY
    before = len(setting.vendors.requests)

    answer = await setting.rank("tei", documents=documents, top_n=3)

    sizes = [len(one.json["texts"]) for one in setting.vendors.requests[before:]]  # type: ignore[arg-type]
    assert sorted(sizes) == [6, 32, 32]
    assert order(answer) == [68, 0, 1]


async def test_an_answer_that_counts_nothing_has_an_estimate_that_is_named(
    setting: Setting,
) -> None:
    body: Json = {"model": "tei", "query": QUERY, "documents": DOCUMENTS}

    answer = await setting.ask("/v1/rerank", body)

    assert answer.headers["x-gateway-estimated"] == "usage"
    read = len(QUERY) * len(DOCUMENTS) + sum(map(len, DOCUMENTS))
    assert answer.json()["usage"]["total_tokens"] == round(read / 4)


async def test_what_a_backend_cannot_limit_is_omitted_and_named(setting: Setting) -> None:
    body: Json = {
        "model": "jina",
        "query": QUERY,
        "documents": DOCUMENTS,
        "max_chunks_per_doc": 3,
        "truncation": True,
        "top_n": 1,
    }

    answer = await setting.ask("/v1/rerank", body)

    assert answer.status_code == 200
    named = answer.headers["x-gateway-dropped-params"]
    assert set(named.split(", ")) == {"max_chunks_per_doc", "truncation"}


async def test_an_instruction_reaches_those_that_read_it_and_is_refused_for_others(
    setting: Setting,
) -> None:
    for model, path in (("siliconflow", "instruction"), ("sglang", "instruct")):
        await setting.rank(model, instruction="Find inventors.")
        assert setting.sent()[path] == "Find inventors."
    body: Json = {"model": "voyage", "query": "q", "documents": ["d"], "instruct": "Find."}

    refused = await setting.ask("/v1/rerank", body)

    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "instruction"


async def test_raw_scores_are_asked_for_in_the_vendors_words(setting: Setting) -> None:
    await setting.rank("vllm", raw_scores=True)
    assert setting.sent()["use_activation"] is False
    await setting.rank("tei", raw_scores=True)
    assert setting.sent()["raw_scores"] is True
    await setting.rank("jina", raw_scores=False, query="another")
    assert "raw_scores" not in setting.sent()


async def test_fields_that_only_a_vendor_has_are_passed_on_to_it(setting: Setting) -> None:
    await setting.rank("siliconflow", overlap_tokens=10, max_chunks_per_doc=4)
    assert setting.sent()["overlap_tokens"] == 10
    assert setting.sent()["max_chunks_per_doc"] == 4
    body: Json = {"model": "cohere", "query": "q", "documents": ["d"], "overlap_tokens": 10}

    refused = await setting.ask("/v1/rerank", body)

    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "overlap_tokens"


async def test_a_failing_backend_is_followed_by_the_next(setting: Setting) -> None:
    body: Json = {"model": "chain", "query": "fail", "documents": ["this will not fail"]}

    failed = await setting.ask("/v1/rerank", body)

    line = setting.gateway.access_lines()[-1]
    assert failed.status_code == 502
    assert [one.backend for one in line.attempts] == ["vl/bge", "ji/jina-reranker-v2"]


async def test_a_server_without_the_route_is_not_set_aside(setting: Setting) -> None:
    body: Json = {"model": "nowhere", "query": "q", "documents": ["d"]}

    answers = [await setting.ask("/v1/rerank", body) for _ in range(8)]

    assert {one.status_code for one in answers} == {424}
    assert setting.gateway.access_lines()[-1].attempts[0].outcome == "upstream_model_unknown"


@pytest.mark.parametrize("model", ["vllm", "deepinfra"])
async def test_many_pairs_are_scored_where_the_backend_does(setting: Setting, model: str) -> None:
    body: Json = {"model": model, "text_1": ["tea", "goods"], "text_2": ["green tea", "a cup"]}

    answer = await setting.ask("/score", body)

    assert [one["score"] for one in answer.json()["data"]] == [1.0, 0.0]
    refused = await setting.ask("/score", {**body, "model": "cohere"})
    assert refused.status_code == 400
    assert "one text with many" in refused.json()["error"]["message"]


@pytest.mark.parametrize(("model", "cost"), [("vllm", 0.003), ("tei", 0.003)])
async def test_searches_have_a_price_where_the_backend_counts_none(
    setting: Setting, model: str, cost: float
) -> None:
    await setting.rank(model, documents=["d"] * 201)

    line = setting.gateway.access_lines()[-1]
    assert line.cost_usd == cost


async def test_searches_and_tokens_are_priced(setting: Setting) -> None:
    await setting.rank("cohere")
    (cohere,) = setting.gateway.access_lines()[-1:]
    await setting.rank("jina", query="priced")
    (jina,) = setting.gateway.access_lines()[-1:]

    assert (cohere.task, cohere.cost_usd) == ("rerank", 0.002)
    assert (jina.prompt_tokens, jina.cost_usd) == (40, 0.000002)
