"""Vendors' odd answers: what can be read is read, and what cannot is an error that says why."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.gateway.surfaces.rerank.setting import Json, Setting, order, rerank_setting

pytestmark = pytest.mark.anyio

RESULTS = '[{"index":0,"relevance_score":0.5},{"index":1,"relevance_score":0.7}]'


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with rerank_setting(tmp_path_factory.mktemp("run")) as one:
        yield one


async def answered(setting: Setting, answer: str, *, model: str = "once") -> Json:
    """Rank two documents by a vendor that answers so. Returns the body, and its status."""
    body: Json = {"model": model, "query": f"answer {answer}", "documents": ["a", "b"]}
    got = await setting.ask("/v1/rerank", body)
    return {**got.json(), "status": got.status_code}


@pytest.mark.parametrize(
    "odd",
    [
        '"usage":[]',
        '"usage":{"total_tokens":"many"}',
        '"usage":{"total_tokens":-40}',
        '"usage":{"total_tokens":1e400}',
        '"usage":null,"meta":7',
        '"meta":{"billed_units":{"search_units":1e308}}',
        '"meta":{"billed_units":{"search_units":-1}}',
        '"meta":{"tokens":[],"billed_units":{"input_tokens":1e308}}',
        '"id":7,"model":{"name":"m"}',
    ],
)
async def test_odd_names_and_counts_cost_no_answer(setting: Setting, odd: str) -> None:
    answer = await answered(setting, f'{{"results":{RESULTS},{odd}}}')

    assert answer["status"] == 200
    assert order(answer) == [1, 0]
    read = 2 * len(f'answer {{"results":{RESULTS},{odd}}}') + 2
    assert cast("Json", answer["usage"])["total_tokens"] == round(read / 4)


@pytest.mark.parametrize("count", ['"40"', "40.0", "40"])
async def test_a_count_is_read_however_it_is_written(setting: Setting, count: str) -> None:
    usage = f'"usage":{{"total_tokens":{count}}}'

    answer = await answered(setting, f'{{"results":{RESULTS},{usage}}}')

    assert answer["usage"] == {"prompt_tokens": 40, "total_tokens": 40}


@pytest.mark.parametrize(
    "results",
    [
        RESULTS.replace("0.5", '"0.5"').replace(":1,", ':"1",'),
        RESULTS.replace(":1,", ":1.0,"),
        RESULTS.replace("relevance_score", "score"),
    ],
)
async def test_numbers_are_read_as_texts_too(setting: Setting, results: str) -> None:
    inside = await answered(setting, f'{{"results":{results}}}')
    bare = await answered(setting, results)

    assert order(inside) == order(bare) == [1, 0]


@pytest.mark.parametrize(
    ("results", "why"),
    [
        (RESULTS.replace("0.5", '"NaN"'), "no score"),
        (RESULTS.replace("0.5", '"inf"'), "no score"),
        (RESULTS.replace("0.5", "null"), "no score"),
        (RESULTS.replace("0.5", "1e400"), "cannot read"),
        (RESULTS.replace(":1,", ":0,"), "document 0 of 2"),
        (RESULTS.replace(":1,", ":2,"), "document 2 of 2"),
        (RESULTS.replace(":1,", ":-1,"), "document -1 of 2"),
        ('[{"index":0,"relevance_score":0.5}]', "1 results for 2"),
        ("[]", "0 results for 2"),
        ('[{"relevance_score":0.5}]', "cannot read"),
        ("null", "without results"),
    ],
)
async def test_a_ranking_that_is_not_of_the_documents_is_an_error(
    setting: Setting, results: str, why: str
) -> None:
    answer = await answered(setting, f'{{"results":{results}}}')

    assert answer["status"] == 502
    assert why in cast("str", answer["message"])


async def test_an_error_inside_a_200_keeps_its_message_and_its_kind(setting: Setting) -> None:
    told = await answered(setting, '{"code":"E7","message":"no worker"}', model="llama")
    error = '{"error":{"message":"slow down","code":"rate_limit_exceeded"}}'
    slow = await answered(setting, error, model="sglang")

    assert (told["status"], told["message"]) == (502, "ll: no worker")
    assert slow["status"] == 429


@pytest.mark.parametrize("probs", ['[["NaN",1]]', "[[0.5,0.5],[0.5,0.5]]", "[]"])
async def test_classes_and_scores_are_one_for_each_input(setting: Setting, probs: str) -> None:
    data = [{"index": 0, "label": "x", "probs": one} for one in json.loads(probs)]
    classes: Json = {"model": "vllm", "input": "answer " + json.dumps({"data": data})}
    scores = [{"index": 0, "score": one[0]} for one in json.loads(probs)]
    score: Json = {
        "model": "vllm",
        "text_1": "answer " + json.dumps({"data": scores}),
        "text_2": "b",
    }

    refused = [await setting.ask("/classify", classes), await setting.ask("/score", score)]

    assert [one.status_code for one in refused] == [502, 502]


async def test_a_search_costs_though_its_vendor_has_not_counted_it(setting: Setting) -> None:
    """A unit is a query with 100 documents; one of more than 500 tokens counts several times."""
    uncounted = 'answer {"results":[]}'
    documents = ["short"] * 99 + ["x" * 3000]
    for sent in (documents, documents[1:]):
        body: Json = {"model": "once", "query": uncounted, "documents": sent}
        assert (await setting.ask("/v1/rerank", body)).status_code == 502
    whole = await answered(setting, f'{{"results":{RESULTS}}}')

    costs = [line.cost_usd for line in setting.gateway.access_lines()[-3:]]
    assert whole["status"] == 200
    assert costs == [0.004, 0.002, 0.002]


async def test_a_budget_holds_the_searches_of_running_requests(setting: Setting) -> None:
    body: Json = {"model": "cohere", "query": "slowly", "documents": ["a"]}
    asked = [setting.ask("/v1/rerank", body, key="key-of-the-poor-000006") for _ in range(8)]

    statuses = [one.status_code for one in await asyncio.gather(*asked)]

    assert statuses.count(200) == 3
    assert statuses.count(429) == 5


async def test_the_cheapest_backend_is_found_by_the_price_of_searches(setting: Setting) -> None:
    few = await setting.ask("/v1/rerank", {"model": "cheap", "query": "q", "documents": ["d"]})
    long: Json = {"model": "cheap", "query": "q", "documents": ["d" * 380_000]}
    many = await setting.ask("/v1/rerank", long)

    assert few.headers["x-gateway-backend"] == "ji/jina-reranker-v2"
    assert many.headers["x-gateway-backend"] == "co/rerank-v3.5"  # 2 searches, or 95,000 tokens


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/rerank", {"query": "q", "documents": ["d"]}),
        ("/v1/score", {"text_1": "a", "text_2": "b"}),
        ("/v1/classify", {"input": "a"}),
        ("/v1/embeddings", {"input": "a"}),
    ],
)
async def test_a_stream_is_refused_only_if_it_is_wanted(
    setting: Setting, path: str, body: Json
) -> None:
    whole = await setting.ask(path, {"model": "vllm", "stream": False, **body})
    stream = await setting.ask(path, {"model": "vllm", "stream": True, **body})

    assert whole.status_code == (424 if path == "/v1/embeddings" else 200)  # it has none
    assert stream.status_code == 400
    assert stream.json()["error"]["param"] == "stream"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/rerank", {"model": "voyage", "documents": ["d"], "query": "fail"}, 502),
        ("/v1/rerank", {"model": "no-such", "documents": ["d"], "query": "q"}, 404),
        ("/v1/rerank", {"model": "voyage", "documents": [], "query": "q"}, 400),
        ("/v1/rerank", {"model": "voyage", "query": "q", "top_k": -1}, 400),
        ("/v1/embeddings", {"model": "no-such", "input": ["a"], "input_type": None}, 404),
    ],
)
async def test_voyages_client_gets_errors_without_the_object_at_which_it_fails(
    setting: Setting, path: str, body: Json, status: int
) -> None:
    refused = await setting.ask(path, {**body, "truncation": True})

    assert refused.status_code == status
    assert refused.json()["detail"]
    assert "error" not in refused.json()
    assert "error" in (await setting.ask(path, body)).json()


async def test_voyages_typescript_client_is_known_by_its_name(setting: Setting) -> None:
    headers = {"x-fern-sdk-name": "voyageai"}
    body: Json = {"model": "voyage", "query": "q", "documents": ["d"]}

    answer = await setting.client.post("/v1/rerank", json=body, headers=headers)

    assert answer.json()["data"] == [{"relevance_score": 0.0, "index": 0}]


async def test_a_field_that_has_no_default_is_only_to_be_sent(setting: Setting) -> None:
    refused = await setting.ask("/v1/classify", {"model": "jina", "input": "a"})

    assert refused.json()["error"]["message"].endswith("labels is required; send it")
