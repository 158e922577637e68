"""Counting tokens where other vendors, or the local engine, count them."""

import json
from pathlib import Path
from typing import cast

import anthropic
import openai
import pytest

from tests.gateway.serving import serving
from tests.gateway.shared_engine import SharedEngine
from tests.gateway.surfaces.anthropic.claude import (
    HELLO,
    WEATHER,
    ClaudeSetting,
    claude_in_front_of,
)
from tests.stand_ins.provider import Answer, Behaviour, Received

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


def counting(field: str) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        await answer.json({field: 375, "max_model_len": 4096})

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
