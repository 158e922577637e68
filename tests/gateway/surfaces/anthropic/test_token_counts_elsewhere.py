"""Counting tokens where other vendors, or the local engine, count them."""

import json
from pathlib import Path
from typing import cast

import anthropic
import httpx
import openai
import pytest

from tests.gateway.backends.vendors.bedrock import BedrockDialect
from tests.gateway.backends.vendors.dialect import Said
from tests.gateway.serving import serving
from tests.gateway.shared_engine import SharedEngine
from tests.gateway.surfaces.anthropic.claude import (
    HELLO,
    WEATHER,
    ClaudeSetting,
    claude_in_front_of,
)
from tests.stand_ins.provider import Answer, Behaviour, Received, silent

pytestmark = pytest.mark.anyio

Json = dict[str, object]
CLAUDE = "anthropic.claude-sonnet-4-5-20250929-v1:0"


def config(adapter: str, model: str, path: str = "") -> str:
    return f"""
providers:
  - {{{{name: remote, adapter: {adapter}, base_url: "{{url}}{path}", api_key: k-0123456789}}}}
models:
  - {{{{name: chat, backends: [{{{{provider: remote, model: "{model}"}}}}]}}}}
"""


MESSAGE: Json = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "c",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def counting(field: str, found: object = 375) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        await answer.json({field: found, "max_model_len": 4096})

    return behave


async def count(setting: ClaudeSetting) -> int:
    found = await setting.client.messages.count_tokens(
        model="chat", messages=[HELLO], system="Be kind.", tools=[WEATHER]
    )
    return found.input_tokens


async def test_bedrock_counts(tmp_path: Path) -> None:
    behave = counting("inputTokens")
    async with claude_in_front_of(behave, config("bedrock", CLAUDE), tmp_path) as setting:
        found = await count(setting)
        (request,) = setting.server.requests

    (converse,) = cast("Json", request.json["input"]).values()
    assert found == 375
    assert request.path == f"/model/{CLAUDE.replace(':', '%3A')}/count-tokens"
    assert converse == {
        "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        "system": [{"text": "Be kind."}],
        "toolConfig": cast("Json", converse)["toolConfig"],
    }


@pytest.mark.parametrize(
    ("path", "target", "whole"),
    [
        ("/v1beta", "/v1beta/models/gemini-3:countTokens", True),
        (
            "/v1/projects/p/locations/l/publishers/google",
            "/v1/projects/p/locations/l/publishers/google/models/gemini-3:countTokens",
            False,
        ),
    ],
    ids=["AI Studio", "Vertex AI"],
)
async def test_gemini_counts(tmp_path: Path, path: str, target: str, whole: bool) -> None:
    behave = counting("totalTokens")
    async with claude_in_front_of(behave, config("gemini", "gemini-3", path), tmp_path) as setting:
        found = await count(setting)
        (request,) = setting.server.requests

    body = request.json
    if whole:
        body = cast("Json", body["generateContentRequest"])
        assert body.pop("model") == "models/gemini-3"
    assert (found, request.path) == (375, target)
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert {"systemInstruction", "tools"} <= body.keys()


async def test_vllm_counts_text_and_not_images(tmp_path: Path) -> None:
    behave = counting("count")
    image = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    content = [{"type": "image", "source": image}]
    async with claude_in_front_of(behave, config("vllm", "qwen", "/v1"), tmp_path) as setting:
        found = await count(setting)
        (request,) = setting.server.requests
        pictured = await setting.client.messages.with_raw_response.count_tokens(
            model="chat",
            messages=[{"role": "user", "content": content}],  # pyright: ignore[reportArgumentType]  as JSON
        )

    assert pictured.headers["x-gateway-estimated"] == "input_tokens"
    assert (found, request.path) == (375, "/tokenize")
    assert request.json.keys() == {"model", "messages", "tools"}
    assert json.dumps(request.json["messages"]).count("Be kind.") == 1


@pytest.mark.parametrize(
    ("adapter", "field", "found", "path"),
    [
        ("sglang", "count", 375, "/tokenize"),
        ("llama-cpp", "input_tokens", 375, "/v1/chat/completions/input_tokens"),
        ("tgi", "tokenize_response", [{"id": 1}] * 375, "/chat_tokenize"),
    ],
)
async def test_servers_of_open_models_count_with_their_templates_and_tools(
    tmp_path: Path, adapter: str, field: str, found: object, path: str
) -> None:
    behave = counting(field, found)
    async with claude_in_front_of(behave, config(adapter, "qwen", "/v1"), tmp_path) as setting:
        counted = await setting.client.messages.with_raw_response.count_tokens(
            model="chat", messages=[HELLO], system="Be kind.", tools=[WEATHER]
        )
        (request,) = setting.server.requests

    assert "x-gateway-estimated" not in counted.headers
    assert ((await counted.parse()).input_tokens, request.path) == (375, path)
    assert json.dumps(request.json["messages"]).count("Be kind.") == 1
    assert len(cast("list[Json]", request.json["tools"])) == 1
    assert request.json.get("stream") in (None, False)


async def test_mindie_counts_the_texts_which_is_nearly_the_conversation(tmp_path: Path) -> None:
    behave = counting("token_number")
    async with claude_in_front_of(behave, config("mindie", "qwen"), tmp_path) as setting:
        counted = await setting.client.messages.with_raw_response.count_tokens(
            model="chat", messages=[HELLO], system="Be kind.", tools=[WEATHER]
        )
        (request,) = setting.server.requests

    assert counted.headers["x-gateway-estimated"] == "input_tokens"
    assert ((await counted.parse()).input_tokens, request.path) == (375, "/v1/tokenizer")
    for word in ("Be kind.", "hi", "weather"):
        assert word in str(request.json["inputs"])


@pytest.mark.parametrize(
    ("adapter", "status"),
    [
        ("sglang", 400),
        ("llama-cpp", 404),
        ("vllm", 500),
        ("anthropic", 529),
        ("anthropic", 401),
        ("bedrock", 400),
        ("bedrock", 403),
    ],
)
async def test_a_counter_that_fails_leaves_an_estimate_and_the_backend_alone(
    tmp_path: Path, adapter: str, status: int
) -> None:
    async def fails(request: Received, answer: Answer) -> None:
        if request.path.endswith("/chat/completions"):
            await answer.chat("I am well.")
        elif request.path.endswith("/messages"):
            await answer.json(MESSAGE)
        elif request.path.endswith("/converse"):
            await answer.json(BedrockDialect().whole(Said()))
        else:
            await answer.json({"error": {"message": "no"}}, status)

    path = "" if adapter in ("anthropic", "bedrock") else "/v1"
    given = config(adapter, "m", path).replace(
        "{{name: chat,", "{{name: chat, breaker: {{min_requests: 1}},"
    )
    async with claude_in_front_of(fails, given, tmp_path) as setting:
        counts = [
            await setting.client.messages.with_raw_response.count_tokens(
                model="chat", messages=[HELLO]
            )
            for _ in range(3)
        ]
        answer = await setting.client.messages.create(model="chat", max_tokens=9, messages=[HELLO])

    assert [one.headers["x-gateway-estimated"] for one in counts] == ["input_tokens"] * 3
    assert answer.content[0].type == "text"


@pytest.mark.parametrize(
    ("adapter", "body"),
    [
        ("vllm", {"count": 60_000, "max_model_len": 131_072, "tokens": [151_643] * 60_000}),
        ("tgi", {"tokenize_response": [{"id": 1, "text": "a", "start": 0, "stop": 1}] * 60_000}),
    ],
)
async def test_the_count_of_a_long_conversation_comes_with_all_its_tokens_and_is_exact(
    tmp_path: Path, adapter: str, body: Json
) -> None:
    async def behave(request: Received, answer: Answer) -> None:
        await answer.json(body)

    async with claude_in_front_of(behave, config(adapter, "qwen", "/v1"), tmp_path) as setting:
        counted = await setting.client.messages.with_raw_response.count_tokens(
            model="chat", messages=[HELLO]
        )

    assert (await counted.parse()).input_tokens == 60_000
    assert "x-gateway-estimated" not in counted.headers


@pytest.mark.parametrize(
    ("adapter", "field"), [("anthropic", "input_tokens"), ("gemini", "totalTokens")]
)
async def test_a_number_that_no_conversation_has_is_replaced_by_an_estimate(
    tmp_path: Path, adapter: str, field: str
) -> None:
    behave = counting(field)
    async with claude_in_front_of(behave, config(adapter, "m"), tmp_path) as setting:
        for found in (-5, 0, 1e300, "375", None):
            setting.server.behaviour = counting(field, found)
            counted = await setting.client.messages.with_raw_response.count_tokens(
                model="chat", messages=[HELLO]
            )

            assert counted.headers["x-gateway-estimated"] == "input_tokens"
            assert (await counted.parse()).input_tokens > 0


@pytest.mark.nightly
async def test_a_counter_that_never_answers_leaves_an_estimate_while_its_client_waits(
    tmp_path: Path,
) -> None:
    async with claude_in_front_of(silent, config("anthropic", "m"), tmp_path) as setting:
        counted = await setting.client.messages.with_raw_response.count_tokens(
            model="chat", messages=[HELLO], timeout=60
        )

    assert counted.headers["x-gateway-estimated"] == "input_tokens"


async def test_clients_of_responses_count_at_openai_and_elsewhere(tmp_path: Path) -> None:
    behave = counting("input_tokens")
    for adapter, path, route in (
        ("openai-responses", "/v1", "/v1/responses/input_tokens"),
        ("anthropic", "", "/v1/messages/count_tokens"),
    ):
        folder = tmp_path / adapter
        folder.mkdir()
        given = config(adapter, "m", path)
        async with (
            claude_in_front_of(behave, given, folder) as setting,
            openai.AsyncOpenAI(base_url=f"{setting.gateway.url}/v1", api_key="k") as client,
        ):
            found = await client.responses.input_tokens.count(
                model="chat", input="hi", instructions="Be kind."
            )
            (request,) = setting.server.requests

        assert (found.input_tokens, found.object) == (375, "response.input_tokens")
        assert request.path == route
        assert "store" not in request.json


async def test_a_count_has_all_that_the_answer_would_be_made_of(tmp_path: Path) -> None:
    behave = counting("input_tokens")
    schema: Json = {"type": "object", "properties": {"at": {"type": "string"}}}
    form = {"type": "json_schema", "name": "place", "schema": schema}
    tool = {"type": "function", "name": "weather", "parameters": schema}
    body: Json = {"model": "chat", "instructions": "Be kind.", "tools": [tool]}
    given = config("openai-responses", "m", "/v1")
    async with (
        claude_in_front_of(behave, given, tmp_path) as setting,
        httpx.AsyncClient(base_url=setting.gateway.url, timeout=60) as client,
    ):
        route = "/v1/responses/input_tokens"
        alone = await client.post(route, json=body)
        whole = await client.post(
            route,
            json={**body, "input": "hi", "text": {"format": form}, "truncation": "auto"},
        )
        nothing = await client.post(route, json={"model": "chat"})
        chained = await client.post(
            route, json={**body, "previous_response_id": "resp_1", "input": "hi"}
        )
        first, second = (one.json for one in setting.server.requests)

    assert (alone.status_code, whole.status_code) == (200, 200)
    assert first == {"model": "m", "instructions": "Be kind.", "input": [], "tools": [tool]}
    assert second["text"] == {"format": form}
    assert (second["input"], second["truncation"]) == ("hi", "auto")
    assert (nothing.status_code, nothing.json()["error"]["param"]) == (400, "input")
    assert chained.json()["error"]["param"] == "previous_response_id"


LOCAL = """
providers:
  - {here}
models:
  - {{name: chat, backends: [{{provider: here, model: caller}}]}}
"""


async def test_the_local_engine_counts_what_it_would_read(
    tmp_path: Path, engine: SharedEngine
) -> None:
    async with (
        serving(LOCAL.format(here=engine.provider), tmp_path, engine=engine) as gateway,
        anthropic.AsyncAnthropic(base_url=gateway.url, api_key="x", max_retries=0) as client,
    ):
        found = await client.messages.count_tokens(model="chat", messages=[HELLO], tools=[WEATHER])
        answer = await client.messages.create(
            model="chat", max_tokens=1, messages=[HELLO], tools=[WEATHER]
        )

    read = answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)
    assert found.input_tokens == read > 0
