"""Clouds and embedding services of the catalogue: what is peculiar to each, on the wire."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Behaviour, Provider, Received, provider

pytestmark = pytest.mark.anyio

Json = dict[str, object]

PATHS = {
    "cloudflare": "/client/v4/accounts/a1/ai/v1",
    "github-models": "/orgs/acme/inference",
    "huawei-maas": "/openai/v1",
    "nebius": "/v1",
    "novita": "/openai/v1",
    "oci": "/openai/v1",
    "qianfan": "/v2",
    "siliconflow": "/v1",
    "snowflake": "/api/v2/cortex/v1",
    "volcengine": "/api/v3",
}
"""The paths of the base URLs of those that chat."""

VECTORS = {
    "cloudflare": PATHS["cloudflare"],
    "github-models": PATHS["github-models"],
    "jina": "/v1",
    "nebius": "/v1",
    "siliconflow": "/v1",
    "voyage": "/v1",
}
"""Of those that embed."""

CONFIG = """
providers: [{{name: up, adapter: {name}, base_url: "{url}{path}", api_key: key-0123456789}}]
models:
  - {{name: m, retry: {{attempts: 1}}, backends: [{{provider: up, model: "v/m"}}]}}
"""
SAID: Json = {
    "id": "c1",
    "object": "chat.completion",
    "model": "v/m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi", "reasoning_content": "Hm."},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
}
HELLO: Json = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


@asynccontextmanager
async def in_front_of(
    name: str, path: str, behave: Behaviour, run_dir: Path
) -> AsyncGenerator[tuple[Provider, httpx.AsyncClient], None]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(behave))
        config = CONFIG.format(name=name, url=server.origin, path=path)
        gateway = await stack.enter_async_context(serving(config, run_dir))
        client = httpx.AsyncClient(base_url=gateway.url, timeout=60)
        yield server, await stack.enter_async_context(client)


def answers(body: Mapping[str, object], status: int = 200) -> Behaviour:
    async def behave(_: Received, answer: Answer) -> None:
        await answer.json(dict(body), status)

    return behave


def texts_of(request: Received) -> list[str]:
    sent = request.json["input"]
    return [sent] if isinstance(sent, str) else cast("list[str]", sent)


async def embeds(request: Received, answer: Answer) -> None:
    count = len(texts_of(request))
    data = [{"object": "embedding", "index": at, "embedding": [0.5]} for at in range(count)]
    await answer.json({"data": data, "model": "v/m", "usage": {"total_tokens": count}})


@pytest.mark.parametrize("name", PATHS)
async def test_a_chat_arrives_where_the_vendor_documents_it(tmp_path: Path, name: str) -> None:
    async with in_front_of(name, PATHS[name], answers(SAID), tmp_path) as (server, client):
        found = await client.post("/v1/chat/completions", json={**HELLO, "max_tokens": 9})
        (request,) = server.requests

    message = found.json()["choices"][0]["message"]
    limit = "max_completion_tokens" if name == "snowflake" else "max_tokens"
    assert request.path == f"{PATHS[name]}/chat/completions"
    assert request.headers["authorization"] == "Bearer key-0123456789"
    assert request.json == {"model": "v/m", "messages": HELLO["messages"], limit: 9}
    assert (message["content"], message["reasoning_content"]) == ("Hi", "Hm.")


@pytest.mark.parametrize("name", VECTORS)
async def test_vectors_are_asked_for_where_the_vendor_has_them(tmp_path: Path, name: str) -> None:
    async with in_front_of(name, VECTORS[name], embeds, tmp_path) as (server, client):
        found = await client.post(
            "/v1/embeddings", json={"model": "m", "input": ["a", "b"], "dimensions": 64}
        )
        (request,) = server.requests

    named = "output_dimension" if name == "voyage" else "dimensions"
    assert [one["embedding"] for one in found.json()["data"]] == [[0.5], [0.5]]
    assert request.path == f"{VECTORS[name]}/embeddings"
    assert request.json == {"model": "v/m", "input": ["a", "b"], named: 64}


@pytest.mark.parametrize("name", sorted(PATHS.keys() - VECTORS.keys()))
async def test_vectors_without_a_source_are_refused(tmp_path: Path, name: str) -> None:
    async with in_front_of(name, PATHS[name], embeds, tmp_path) as (server, client):
        found = await client.post("/v1/embeddings", json={"model": "m", "input": "a"})
        asked = server.requests

    assert found.status_code == 400
    assert "not offered" in found.text
    assert not asked


@pytest.mark.parametrize("name", ["jina", "voyage"])
async def test_an_embedding_service_refuses_chats(tmp_path: Path, name: str) -> None:
    async with in_front_of(name, "/v1", embeds, tmp_path) as (server, client):
        found = await client.post("/v1/chat/completions", json=HELLO)
        asked = server.requests

    assert found.status_code == 400
    assert not asked


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("jina", {"task": "retrieval.query", "late_chunking": True, "normalized": False}),
        ("voyage", {"input_type": "query", "truncation": False}),
    ],
)
async def test_an_embedding_services_own_fields_are_sent(
    tmp_path: Path, name: str, own: Json
) -> None:
    async with in_front_of(name, "/v1", embeds, tmp_path) as (server, client):
        await client.post("/v1/embeddings", json={"model": "m", "input": "a", "user": "u", **own})
        (request,) = server.requests

    assert request.json == {"model": "v/m", "input": "a", **own}


@pytest.mark.parametrize(("name", "most"), [("cloudflare", 100), ("voyage", 128)])
async def test_more_texts_than_a_vendor_takes_are_split(
    tmp_path: Path, name: str, most: int
) -> None:
    async with in_front_of(name, VECTORS[name], embeds, tmp_path) as (server, client):
        texts = [str(at) for at in range(most + 1)]
        found = await client.post("/v1/embeddings", json={"model": "m", "input": texts})
        sizes = [len(texts_of(one)) for one in server.requests]

    assert len(found.json()["data"]) == most + 1
    assert len(sizes) == 2
    assert (max(sizes) <= most, sum(sizes)) == (True, most + 1)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("novita", {"separate_reasoning": True, "top_k": 5, "repetition_penalty": 1.1}),
        ("siliconflow", {"enable_thinking": True, "thinking_budget": 512, "min_p": 0.1}),
        ("volcengine", {"thinking": {"type": "disabled"}}),
    ],
)
async def test_a_vendors_own_fields_are_sent(tmp_path: Path, name: str, own: Json) -> None:
    async with in_front_of(name, PATHS[name], answers(SAID), tmp_path) as (server, client):
        await client.post("/v1/chat/completions", json={**HELLO, **own})
        (request,) = server.requests

    assert request.json == {"model": "v/m", "messages": HELLO["messages"], **own}


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("novita", "tool_choice", "required"),
        ("siliconflow", "min_p", 1.5),
    ],
)
async def test_what_a_vendor_does_not_read_is_refused_by_name(
    tmp_path: Path, name: str, field: str, value: object
) -> None:
    tool = {"type": "function", "function": {"name": "clock"}}
    more = {"tools": [tool]} if "tool" in field else {}
    async with in_front_of(name, PATHS[name], answers(SAID), tmp_path) as (server, client):
        found = await client.post("/v1/chat/completions", json={**HELLO, **more, field: value})
        asked = server.requests

    assert found.status_code == 400
    assert field in found.text
    assert not asked


async def test_siliconflows_streams_may_end_without_a_mark(tmp_path: Path) -> None:
    async def behave(_: Received, answer: Answer) -> None:
        await answer.begin_stream()
        for delta, end in (({"reasoning_content": "Hm."}, None), ({"content": "Hi"}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            chunk = {"id": "c1", "model": "v/m", "choices": [choice]}
            await answer.chunk(f"data: {json.dumps(chunk)}\n\n".encode())
        await answer.raw(b"0\r\n\r\n")

    async with in_front_of("siliconflow", "/v1", behave, tmp_path) as (_, client):
        found = await client.post("/v1/chat/completions", json={**HELLO, "stream": True})

    assert '"reasoning_content":"Hm."' in found.text
    assert '"content":"Hi"' in found.text
    assert found.text.rstrip().endswith("data: [DONE]")


async def test_snowflakes_calls_may_have_an_empty_reason(tmp_path: Path) -> None:
    call = {"id": "t1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}
    choice = {"index": 0, "message": {"content": "", "tool_calls": [call]}, "finish_reason": ""}
    behave = answers({**SAID, "choices": [choice]})
    async with in_front_of("snowflake", PATHS["snowflake"], behave, tmp_path) as (_, client):
        found = await client.post("/v1/chat/completions", json=HELLO)

    assert found.json()["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("name", "status", "body", "sees", "message"),
    [
        (
            "cloudflare",
            400,
            {"success": False, "errors": [{"code": 5006, "message": "Bad input"}], "result": None},
            400,
            "Bad input",
        ),
        ("snowflake", 400, {"message": "bad temperature", "error_code": "390142"}, 400, "bad"),
        ("siliconflow", 400, {"code": 20012, "message": "no such value"}, 400, "no such value"),
        (
            "github-models",
            400,
            {"error": {"code": "unavailable_model", "message": "Unavailable model: x"}},
            400,
            "Unavailable model",
        ),
        ("volcengine", 401, {"error": {"code": "AuthenticationError", "message": "x"}}, 424, ""),
    ],
)
async def test_a_vendors_error_is_told(
    tmp_path: Path, name: str, status: int, body: Json, sees: int, message: str
) -> None:
    behave = answers(body, status)
    async with in_front_of(name, PATHS[name], behave, tmp_path) as (_, client):
        found = await client.post("/v1/chat/completions", json=HELLO)

    assert found.status_code == sees
    assert message in found.json()["error"]["message"]
