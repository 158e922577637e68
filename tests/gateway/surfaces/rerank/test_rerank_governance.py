"""Reranking is governed as chats are: keys, limits, guardrails, the cache, records, explain."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.gateway.cli.command_line import run, table
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

BODY: Json = {"query": QUERY, "documents": DOCUMENTS}


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with rerank_setting(tmp_path_factory.mktemp("run")) as one:
        yield one


async def test_a_key_reranks_with_its_own_models_only(setting: Setting) -> None:
    key = "key-of-few-of-them-0002"

    allowed = await setting.ask("/v1/rerank", {"model": "jina", **BODY}, key=key)
    others = await setting.ask("/v1/rerank", {"model": "cohere", **BODY}, key=key)
    default = await setting.ask("/rerank", {"query": "q", "texts": ["t"]}, key=key)
    wrong = await setting.ask("/v1/rerank", {"model": "jina", **BODY}, key="wrong")

    assert (allowed.status_code, others.status_code, wrong.status_code) == (200, 404, 401)
    assert default.status_code == 400
    assert default.json()["error"]["param"] == "model"


async def test_a_limit_counts_requests_of_all_kinds(setting: Setting) -> None:
    key = "key-of-the-thrifty-03"

    first = await setting.ask("/v2/rerank", {"model": "cohere", **BODY}, key=key)
    second = await setting.ask("/score", {"model": "cohere", "text_1": "a", "text_2": "b"}, key=key)
    third = await setting.ask("/v2/rerank", {"model": "cohere", **BODY}, key=key)

    assert [one.status_code for one in (first, second, third)] == [200, 200, 429]
    assert "retry-after" in third.headers
    assert third.json()["message"]


async def test_a_guardrail_masks_queries_and_documents(setting: Setting) -> None:
    key = "key-of-the-watched-04"

    answer = await setting.ask(
        "/v1/rerank", {"model": "vllm", "query": "tea", "documents": DOCUMENTS}, key=key
    )

    assert answer.status_code == 200
    assert setting.sent()["query"] == "[masked]"
    assert "tea" not in str(setting.sent()["documents"])


async def test_an_equal_request_is_answered_from_the_cache(setting: Setting) -> None:
    body: Json = {"model": "jina", "query": "cached once", "documents": DOCUMENTS}
    first = await setting.ask("/v1/rerank", body)
    before = len(setting.vendors.requests)

    again = await setting.ask("/v1/rerank", body)
    fewer = await setting.ask("/v1/rerank", {**body, "top_n": 1})

    assert (first.headers["x-gateway-cache"], again.headers["x-gateway-cache"]) == ("miss", "hit")
    kept, told = first.json(), again.json()
    assert {**kept, "id": ""} == {**told, "id": ""}
    assert fewer.headers["x-gateway-cache"] == "miss"
    assert len(setting.vendors.requests) == before + 1


async def test_a_record_says_which_task_it_was(setting: Setting) -> None:
    await setting.ask("/v1/classify", {"model": "vllm", "input": "a good one"})

    line = setting.gateway.access_lines()[-1]
    assert (line.surface, line.task, line.backend) == ("pooling", "classify", "vl/bge")
    assert (line.prompt_tokens, line.usage_source) == (40, "reported")


async def test_models_of_other_tasks_refuse_a_task_by_its_name(setting: Setting) -> None:
    chat = await setting.ask(
        "/v1/chat/completions",
        {"model": "cohere", "messages": [{"role": "user", "content": "hi"}], "stream": True},
    )
    classes = await setting.ask("/v1/classify", {"model": "cohere", "input": "a"})

    assert chat.status_code != 200  # this stand-in has no chats
    assert classes.status_code == 400
    assert "classify" in classes.json()["error"]["message"]


async def test_a_copy_goes_to_the_mirror_and_its_order_is_compared(setting: Setting) -> None:
    ranked = await setting.rank("mirrored")
    for _ in range(200):
        if setting.gateway.mirror_lines():
            break
        await asyncio.sleep(0.02)

    (line,) = setting.gateway.mirror_lines()
    assert order(ranked) == ORDER
    assert (line.mirror, line.outcome) == ("co/rerank-v3.5", "ok")
    assert line.compared is not None
    assert line.compared.similarity == 1.0


def test_explain_says_which_backends_rank_and_why_others_do_not(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        """
providers:
  - {name: co, adapter: cohere, base_url: "http://127.0.0.1:9", api_key: k}
  - {name: vl, adapter: vllm, base_url: "http://127.0.0.1:9/v1"}
models:
  - name: rank
    policy: in_order
    backends: [{provider: co, model: rerank-v3.5}, {provider: vl, model: bge}]
"""
    )
    body = '{"model":"rank","query":"q","documents":["d"],"raw_scores":true}'

    said = run("explain", "-", "--config", str(config), typed=body)

    assert said.exit_code == 0
    assert "rerank at /v1/rerank" in said.output
    ((_, backend, *_rest),) = table(said.output, "BACKEND")[:1]
    assert backend == "vl/bge"
    assert "raw_scores is not supported" in said.output


async def test_large_requests_are_answered_as_small_ones(setting: Setting) -> None:
    filler = "x" * 400
    documents = [f"{filler} {one}" for one in DOCUMENTS] * 300

    answer = await setting.rank("cohere", documents=documents, top_n=2, return_documents=False)

    assert order(answer) == [1, 5]
    sizes = [len(one.json["documents"]) for one in setting.vendors.requests[-2:]]  # type: ignore[arg-type]
    assert sorted(sizes) == [200, 1000]
    assert ORDER[0] == 1
