"""Pooling, as vLLM's clients call it: raw numbers of texts, token ids and conversations."""

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.gateway.surfaces.rerank.setting import Json, Setting, rerank_setting
from tests.gateway.surfaces.rerank.vendors import vector_of

pytestmark = pytest.mark.anyio

HELLO: Json = {"role": "user", "content": "hello"}
WRONG: list[tuple[Json, str]] = [
    ({}, "input"),
    ({"input": []}, "input"),
    ({"input": [[]]}, "input[0]"),
    ({"input": ["a", 1]}, "input"),
    ({"input": [-1]}, "input[0]"),
    ({"input": ["a"] * 10_001}, "input"),
    ({"input": "a", "messages": [HELLO]}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "nobody", "content": "a"}]}, "messages[0].role"),
    ({"input": "a", "task": "plugin"}, "task"),
    ({"data": {"prompt": "a"}, "task": "plugin"}, "task"),
    ({"input": "a", "dimensions": 0}, "dimensions"),
    ({"input": "a", "encoding_format": "bytes"}, "encoding_format"),
    ({"input": "a", "endianness": "middle"}, "endianness"),
    ({"input": "a", "softmax": True, "use_activation": False}, "softmax"),
    ({"input": "a", "stream": True}, "stream"),
    ({"input": "a", "no_such_field": 1}, "no_such_field"),
]


@pytest.fixture(scope="module")
async def setting(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Setting, None]:
    async with rerank_setting(tmp_path_factory.mktemp("run")) as one:
        yield one


@pytest.mark.parametrize("path", ["/v1/pooling", "/pooling"])
async def test_the_answer_has_vllms_form_and_the_numbers_as_they_were_written(
    setting: Setting, path: str
) -> None:
    answer = await setting.ask(path, {"model": "vllm", "input": ["one", "three"]})

    assert answer.status_code == 200, answer.text
    body = cast("Json", answer.json())
    assert str(body["id"]).startswith("pool-")
    assert (body["object"], body["model"]) == ("list", "bge")
    assert body["usage"] == {"prompt_tokens": 40, "total_tokens": 40, "completion_tokens": 0}
    data = cast("list[Json]", body["data"])
    assert [(one["index"], one["object"]) for one in data] == [(0, "pooling"), (1, "pooling")]
    assert answer.text.index(vector_of("one")) < answer.text.index(vector_of("three"))


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("one", "one"),
        (["a"], "a"),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [1, 2]),
        ([[1], [2, 3]], [[1], [2, 3]]),
    ],
)
async def test_texts_and_token_ids_reach_the_backend(
    setting: Setting, given: object, sent: object
) -> None:
    answer = await setting.ask("/v1/pooling", {"model": "vllm", "input": given})

    assert answer.status_code == 200, answer.text
    assert setting.sent()["input"] == sent


async def test_a_conversation_is_pooled_as_one_input(setting: Setting) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    messages = [HELLO, {"role": "assistant", "content": "hi"}, {"role": "user", "content": [image]}]

    answer = await setting.ask("/v1/pooling", {"model": "vllm", "messages": messages})

    assert len(answer.json()["data"]) == 1
    assert setting.sent()["messages"] == messages


async def test_every_field_of_vllm_reaches_it(setting: Setting) -> None:
    fields: Json = {
        "task": "token_embed",
        "dimensions": 2,
        "encoding_format": "base64",
        "embed_dtype": "float16",
        "endianness": "little",
        "use_activation": False,
        "truncate_prompt_tokens": -1,
        "user": "u",
    }

    answer = await setting.ask("/v1/pooling", {"model": "vllm", "input": ["a"], **fields})

    assert answer.json()["data"][0]["data"] == "AACAPwAAAMA="
    assert setting.sent() == {"model": "bge", "input": "a", **fields}


@pytest.mark.parametrize("name", ["activation", "softmax", "normalize"])
async def test_earlier_names_of_the_activation_are_understood(setting: Setting, name: str) -> None:
    await setting.ask("/v1/pooling", {"model": "vllm", "input": "a", name: False})

    assert setting.sent()["use_activation"] is False
    assert name not in setting.sent()


async def test_one_number_per_text_is_an_answer(setting: Setting) -> None:
    answer = await setting.ask(
        "/pooling", {"model": "vllm", "input": "a", "task": "token_classify"}
    )

    assert answer.json()["data"][0]["data"] == 0.28458935022354126


@pytest.mark.parametrize(("body", "param"), WRONG)
async def test_what_cannot_be_pooled_is_refused_by_its_name(
    setting: Setting, body: Json, param: str
) -> None:
    before = len(setting.vendors.requests)

    refused = await setting.ask("/v1/pooling", {"model": "vllm", **body})

    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["param"] == param
    assert len(setting.vendors.requests) == before


async def test_lmdeploy_pools_inputs_and_refuses_other_fields_by_name(setting: Setting) -> None:
    answer = await setting.ask("/v1/pooling", {"model": "rewards", "input": ["a", "b"]})
    refused = await setting.ask("/v1/pooling", {"model": "rewards", "input": "a", "task": "embed"})
    said = await setting.ask("/v1/pooling", {"model": "rewards", "messages": [HELLO]})

    assert [one["data"] for one in answer.json()["data"]] == [0.5, 0.25]
    assert setting.sent() == {"model": "rm", "input": ["a", "b"]}
    assert (refused.status_code, said.status_code) == (400, 400)
    assert refused.json()["error"]["param"] == "task"
    assert refused.json()["error"]["message"].startswith("lm/rm: task ")
    assert said.json()["error"]["param"] == "messages"


@pytest.mark.parametrize("model", ["tei", "jina", "sglang"])
async def test_backends_without_pooling_refuse_it_by_its_name(setting: Setting, model: str) -> None:
    body: Json = {"model": model, "input": "a", "task": "embed"}

    refused = await setting.ask("/v1/pooling", body)

    assert refused.status_code == 400
    assert ": pool" in refused.json()["error"]["message"]


async def test_a_server_without_pooling_is_named(setting: Setting) -> None:
    refused = await setting.ask("/v1/pooling", {"model": "chats", "input": "a"})

    assert refused.status_code == 424
    assert "vn" in refused.json()["error"]["message"]


async def test_what_the_backend_refuses_has_its_reason(setting: Setting) -> None:
    refused = await setting.ask("/v1/pooling", {"model": "vllm", "input": "a", "task": "rank"})

    assert refused.status_code == 400
    assert "Unsupported task: rank" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    "data",
    [
        "[]",
        '[{"index":1,"data":[1.0]}]',
        '[{"index":0,"data":[1.0]},{"index":0,"data":[1.0]}]',
        '[{"index":0,"data":[NaN]}]',
        '[{"index":0,"data":[1e999]}]',
        '[{"index":0,"data":[null]}]',
        '[{"index":0,"data":"AACAPw=="}]',
        '[{"index":0,"data":{}}]',
        '[{"index":0}]',
    ],
)
async def test_an_answer_that_is_not_about_the_inputs_is_an_error_of_the_backend(
    setting: Setting, data: str
) -> None:
    given = f'answer {{"model":"m","data":{data}}}'

    answer = await setting.ask("/v1/pooling", {"model": "vllm", "input": [given]})

    assert answer.status_code == 502, answer.text


@pytest.mark.parametrize("data", ['"not base64"', "[1.0]", '"AACAPw"'])
async def test_what_should_be_base64_is_checked(setting: Setting, data: str) -> None:
    given = f'answer {{"data":[{{"index":0,"data":{data}}}]}}'
    body: Json = {"model": "vllm", "input": [given], "encoding_format": "base64"}

    answer = await setting.ask("/v1/pooling", body)

    assert answer.status_code == 502, answer.text


async def test_keys_guardrails_the_cache_and_records_know_pooling(setting: Setting) -> None:
    few, watched = "key-of-few-of-them-0002", "key-of-the-watched-04"
    body: Json = {"model": "pooled", "input": ["cached once"]}

    others = await setting.ask("/v1/pooling", body, key=few)
    first = await setting.ask("/v1/pooling", body)
    line = setting.gateway.access_lines()[-1]
    again = await setting.ask("/v1/pooling", body)
    other_task = await setting.ask("/v1/pooling", {**body, "task": "embed"})
    await setting.ask("/pooling", {"model": "vllm", "input": ["tea", "a tea"]}, key=watched)
    masked = setting.sent()["input"]
    said = [{"role": "user", "content": "tea"}]
    await setting.ask("/pooling", {"model": "vllm", "messages": said}, key=watched)

    assert others.status_code == 404
    assert (line.surface, line.task, line.backend) == ("pooling", "pool", "vl/bge-m3")
    assert (line.prompt_tokens, line.usage_source) == (40, "reported")
    states = [one.headers["x-gateway-cache"] for one in (first, again, other_task)]
    assert states == ["miss", "hit", "miss"]
    assert again.json()["data"] == first.json()["data"]
    assert "tea" not in str(masked)
    assert setting.sent()["messages"] == [{"role": "user", "content": "[masked]"}]


async def test_a_guardrail_refuses_token_ids_that_it_cannot_read(setting: Setting) -> None:
    before = len(setting.vendors.requests)

    refused = await setting.ask(
        "/v1/pooling", {"model": "vllm", "input": [1, 2]}, key="key-of-the-watched-04"
    )

    assert refused.status_code == 400
    assert len(setting.vendors.requests) == before


async def test_a_copy_goes_to_the_mirror_and_its_vectors_are_compared(setting: Setting) -> None:
    await setting.ask("/v1/pooling", {"model": "vectors", "input": ["a", "b"]})
    for _ in range(200):
        if setting.gateway.mirror_lines():
            break
        await asyncio.sleep(0.02)

    (line,) = setting.gateway.mirror_lines()
    assert (line.mirror, line.outcome) == ("vt/bge-m3", "ok")
    assert line.compared is not None
    assert line.compared.similarity == pytest.approx(1.0)
