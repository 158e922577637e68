"""Reranking in the dialects of its clients: what they send, and the answer that they expect."""

from collections.abc import AsyncGenerator

import cohere
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


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with rerank_setting(tmp_path_factory.mktemp("run")) as one:
        yield one


@pytest.mark.parametrize("model", ["cohere", "tei"])
async def test_coheres_second_version_gets_what_it_is_billed_by(
    setting: Setting, model: str
) -> None:
    body: Json = {"model": model, "query": QUERY, "documents": DOCUMENTS, "top_n": 2}

    answer = (await setting.ask("/v2/rerank", body)).json()

    assert answer.keys() == {"id", "results", "meta"}
    assert answer["results"] == [
        {"index": 1, "relevance_score": 1.0},
        {"index": 3, "relevance_score": 0.6667},
    ]
    assert answer["meta"]["api_version"] == {"version": "2"}
    units = answer["meta"]["billed_units"]
    assert units == {"search_units": 1} if model == "cohere" else units["input_tokens"] > 0


async def test_coheres_own_client_reads_both_versions(setting: Setting) -> None:
    key = "key-of-all-of-them-0001"
    async with cohere.AsyncClientV2(key, base_url=setting.gateway.url) as second:
        answer = await second.rerank(model="tei", query=QUERY, documents=DOCUMENTS, top_n=2)
    async with cohere.AsyncClient(key, base_url=setting.gateway.url) as first:
        older = await first.rerank(model="cohere", query=QUERY, documents=DOCUMENTS, top_n=2)
        with pytest.raises(cohere.BadRequestError, match="documents must have at least one"):
            await first.rerank(model="cohere", query=QUERY, documents=[])

    assert [one.index for one in answer.results] == [one.index for one in older.results] == [1, 3]
    assert older.results[0].document is not None
    assert older.results[0].document.text == DOCUMENTS[1]
    assert older.meta is not None
    assert older.meta.billed_units is not None
    assert older.meta.billed_units.search_units == 1


@pytest.mark.parametrize("sent", [{"top_k": 2}, {"top_k": None, "truncation": True}])
@pytest.mark.parametrize("model", ["voyage", "cohere"])
async def test_voyages_clients_get_data(setting: Setting, model: str, sent: Json) -> None:
    body: Json = {"model": model, "query": QUERY, "documents": DOCUMENTS, **sent}

    answer = (await setting.ask("/v1/rerank", body)).json()

    assert answer.keys() == {"object", "data", "model", "usage"}
    count = 2 if sent["top_k"] else 4
    assert [one["index"] for one in answer["data"]] == ORDER[:count]
    assert "document" not in answer["data"][0]
    assert answer["usage"]["total_tokens"] > 0


async def test_voyages_documents_are_texts(setting: Setting) -> None:
    body: Json = {
        "model": "voyage",
        "query": QUERY,
        "documents": DOCUMENTS,
        "top_k": 1,
        "return_documents": True,
    }

    answer = (await setting.ask("/v1/rerank", body)).json()

    assert answer["data"] == [{"relevance_score": 1.0, "index": 1, "document": DOCUMENTS[1]}]


async def test_clients_of_tei_name_no_model_and_get_a_list(setting: Setting) -> None:
    body: Json = {"query": QUERY, "texts": DOCUMENTS}

    plain = await setting.ask("/rerank", body)
    told = await setting.ask("/rerank", {**body, "return_text": True, "truncate": True})

    assert [one["index"] for one in plain.json()] == ORDER
    assert plain.json()[0] == {"index": 1, "score": 1.0}
    assert told.json()[0] == {"index": 1, "score": 1.0, "text": DOCUMENTS[1]}
    assert setting.sent()["truncate"] is True


async def test_a_model_in_the_body_comes_before_the_default(setting: Setting) -> None:
    body: Json = {"model": "vllm", "query": QUERY, "texts": DOCUMENTS}

    answer = await setting.ask("/rerank", body)

    assert [one["index"] for one in answer.json()] == ORDER
    assert setting.vendors.requests[-1].path == "/vllm/rerank"


async def test_objects_are_ranked_by_their_text_and_come_back_as_they_are(
    setting: Setting,
) -> None:
    documents = [{"text": one, "id": place} for place, one in enumerate(DOCUMENTS)]

    answer = await setting.rank("cohere", documents=documents, top_n=1)

    assert setting.sent()["documents"] == DOCUMENTS
    assert answer["results"] == [{"index": 1, "relevance_score": 1.0, "document": documents[1]}]


async def test_objects_are_ranked_by_the_fields_that_the_client_names(setting: Setting) -> None:
    documents: list[object] = [{"title": "Tea", "year": 1892}, {"title": "Exchange"}]

    await setting.rank("cohere", documents=documents, rank_fields=["title", "year"])

    assert setting.sent()["documents"] == ["title: Tea\nyear: 1892", "title: Exchange"]


async def test_no_documents_come_back_unless_the_client_wants_them(setting: Setting) -> None:
    answer = await setting.rank("vllm", return_documents=False)

    assert "document" not in answer["results"][0]  # type: ignore[index]
    assert order(answer) == ORDER


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"documents": None}, "documents"),
        ({"documents": []}, "documents"),
        ({"documents": ["a", 1]}, "documents[1]"),
        ({"documents": [{"title": "a"}]}, "documents[0]"),
        ({"documents": [{"text": 5}]}, "documents[0].text"),
        ({"documents": [{"a": "b"}], "rank_fields": ["c"]}, "documents[0]"),
        ({"documents": ["d"] * 10_001}, "documents"),
        ({"documents": ["d"], "texts": ["t"]}, "texts"),
        ({"query": 5}, "query"),
        ({"query": {"image": "x"}}, "query"),
        ({"top_n": -1}, "top_n"),
        ({"top_n": 2, "top_k": 3}, "top_k"),
        ({"max_chunks_per_doc": 0}, "max_chunks_per_doc"),
        ({"model": 5}, "model"),
        ({"model": None}, "model"),
    ],
)
async def test_what_cannot_be_ranked_is_refused_by_its_field(
    setting: Setting, fields: Json, param: str
) -> None:
    body = {"model": "cohere", "query": QUERY, "documents": DOCUMENTS, **fields}
    before = len(setting.vendors.requests)

    refused = await setting.ask("/v1/rerank", body)

    assert refused.status_code == 400, refused.text
    told = refused.json()
    assert told["error"]["param"] == param
    assert told["message"] == told["detail"] == told["error"]["message"]
    assert told["message"]
    assert len(setting.vendors.requests) == before


async def test_scores_have_vllms_form(setting: Setting) -> None:
    body: Json = {"model": "cohere", "queries": "green tea", "documents": ["tea", "green tea"]}

    answer = (await setting.ask("/v1/score", body)).json()

    assert answer["id"].startswith("score-")
    assert (answer["object"], answer["model"]) == ("list", "cohere")
    assert answer["data"] == [
        {"index": 0, "object": "score", "score": 0.5},
        {"index": 1, "object": "score", "score": 1.0},
    ]
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"text_2": "a"}, "text_1"),
        ({"text_1": "a"}, "text_2"),
        ({"text_1": ["a", "b"], "text_2": ["a", "b", "c"]}, "text_1"),
        ({"text_1": "a", "data_1": "b", "text_2": "c"}, "data_1"),
        ({"text_1": [], "text_2": "c"}, "text_1"),
        ({"text_1": [1, 2], "text_2": "c"}, "text_1[0]"),
    ],
)
async def test_pairs_that_do_not_match_are_refused_by_their_field(
    setting: Setting, fields: Json, param: str
) -> None:
    refused = await setting.ask("/v1/score", {"model": "vllm", **fields})

    assert refused.status_code == 400
    assert refused.json()["error"]["param"].startswith(param.partition("[")[0])


@pytest.mark.parametrize("model", ["vllm", "tei"])
async def test_classes_have_vllms_form(setting: Setting, model: str) -> None:
    body: Json = {"model": model, "input": ["a good one", "another"]}

    answer = (await setting.ask("/v1/classify", body)).json()

    assert [one["label"] for one in answer["data"]] == ["good", "bad"]
    assert [one["num_classes"] for one in answer["data"]] == [2, 2]
    assert sorted(answer["data"][0]["probs"]) == [0.1, 0.9]
    assert answer["usage"]["total_tokens"] > 0


async def test_classes_have_teis_form_at_its_path(setting: Setting) -> None:
    single = await setting.ask("/predict", {"inputs": "a good one"})
    pair = await setting.ask("/predict", {"inputs": ["is it", "good"]})
    batch = await setting.ask("/predict", {"inputs": [["a good one"], ["is it", "bad"], "good"]})

    good = [{"label": "good", "score": 0.9}, {"label": "bad", "score": 0.1}]
    alone = await setting.ask("/predict", {"inputs": ["a good one"]})
    assert single.json() == pair.json() == alone.json() == good
    assert [one[0]["label"] for one in batch.json()] == ["good", "bad", "good"]
    elsewhere = await setting.ask("/predict", {"model": "vllm", "inputs": "a good one"})
    assert elsewhere.json()[0] == good[0]


async def test_pairs_are_classified_only_where_the_backend_reads_pairs(setting: Setting) -> None:
    refused = await setting.ask("/predict", {"model": "vllm", "inputs": ["is it", "good"]})

    assert refused.status_code == 400
    assert "input.pairs" in refused.json()["error"]["message"]


async def test_classes_that_a_client_brings_need_a_backend_for_them(setting: Setting) -> None:
    labels = ["good", "bad"]

    refused = await setting.ask("/classify", {"model": "vllm", "input": "a", "labels": labels})
    missing = await setting.ask("/classify", {"model": "jina", "input": "a"})

    assert refused.json()["error"]["param"] == "labels"
    assert missing.json()["error"]["param"] == "labels"
