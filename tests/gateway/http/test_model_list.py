"""What `GET /v1/models` shows of the backends behind a model, to the clients that read it."""

from pathlib import Path

import anthropic
import httpx
import openai
import pytest

from tests.gateway.serving import serving
from tests.gateway.shared_engine import MODELS, SharedEngine

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {name: small, adapter: openai, base_url: "http://127.0.0.1:9/v1"}
  - {name: large, adapter: anthropic, base_url: "http://127.0.0.1:9"}
auth:
  mode: keys
  keys: [{name: all, key: key-of-all-models}, {name: few, key: key-of-few-models, models: [plain]}]
models:
  - name: chat
    aliases: [talk]
    backends: [{provider: small, model: s}, {provider: large, model: l}]
    fallback: [plain]
  - {name: plain, backends: [{provider: small, model: nothing-known}]}
  - {name: "any-*", backends: [{provider: small, model: "*"}]}
prices:
  - {match: small/s, input: 0.1, output: 20, cached_input: 0.025}
  - {match: large/l, input: 2.5, output: 10}
capabilities:
  - {match: small/s, context: 8192, max_output: 4096, input: [text], output: [text], tools: false}
  - match: large/l
    context: 200000
    max_output: 64000
    input: [text, image, audio]
    output: [text]
    tools: true
    reasoning: true
    retires: 2030-01-31
  - {match: small/any-1, context: 77, retires: 2031-05-06}
"""
ALL = {"authorization": "Bearer key-of-all-models"}


async def test_a_model_is_described_by_what_its_backends_can_do_together(tmp_path: Path) -> None:
    async with serving(CONFIG, tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, headers=ALL, timeout=60) as client:
            listed = (await client.get("/v1/models")).json()
            one = (await client.get("/v1/models/chat")).json()
            alias = (await client.get("/v1/models/talk")).json()

    assert [model["id"] for model in listed["data"]] == ["chat", "plain", "talk"]
    assert listed["data"][0] == one
    assert alias == {**one, "id": "talk", "name": "talk"}
    parameters = one.pop("supported_parameters")
    assert one.pop("created") > 0
    assert one == {
        "id": "chat",
        "object": "model",
        "owned_by": "strowger",
        "type": "base",
        "name": "chat",
        "context_length": 200_000,
        "max_model_len": 200_000,
        "max_completion_tokens": 64_000,
        "architecture": {
            "modality": "text+image->text",
            "input_modalities": ["text", "image"],
            "output_modalities": ["text"],
        },
        "capabilities": {"tools": True, "reasoning": True},
        "pricing": {
            "prompt": "0.0000025",
            "completion": "0.00002",
            "input_cache_read": "0.0000025",
        },
        "top_provider": {"context_length": 200_000, "max_completion_tokens": 64_000},
    }
    assert {"max_tokens", "max_completion_tokens", "tools", "seed", "top_k"} <= set(parameters)


async def test_what_is_unknown_is_absent_and_not_zero(tmp_path: Path) -> None:
    async with serving(CONFIG, tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, headers=ALL, timeout=60) as client:
            plain = (await client.get("/v1/models/plain")).json()

    shown = {"id", "object", "created", "owned_by", "type", "name", "supported_parameters"}
    assert set(plain) == {*shown, "capabilities"}
    assert plain["capabilities"] == {}


async def test_a_parameter_that_no_backend_honours_is_not_listed(tmp_path: Path) -> None:
    more = "\n  - {match: small/nothing-known, tools: false, reasoning: false}\n"
    async with serving(CONFIG.rstrip() + more, tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, headers=ALL, timeout=60) as client:
            plain = (await client.get("/v1/models/plain")).json()

    parameters = set(plain["supported_parameters"])
    assert parameters.isdisjoint({"tools", "tool_choice", "reasoning_effort", "watermark"})
    assert {"temperature", "response_format"} <= parameters
    assert all("." not in name for name in parameters)


async def test_a_model_behind_a_wildcard_has_the_facts_of_its_name(tmp_path: Path) -> None:
    async with serving(CONFIG, tmp_path) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, headers=ALL, timeout=60) as client:
            one = (await client.get("/v1/models/any-1")).json()
            other = (await client.get("/v1/models/any-2")).json()

    assert (one["context_length"], one["shutdown_date"]) == (77, "2031-05-06")
    assert "context_length" not in other


async def test_a_local_engine_knows_its_own_context(tmp_path: Path, engine: SharedEngine) -> None:
    config = f"providers: [{engine.provider}]\n{MODELS}\n"
    async with serving(config, tmp_path, engine=engine) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
            await client.post("/v1/chat/completions", json={**body, "max_tokens": 1})
            shown = (await client.get("/v1/models/tiny")).json()
            long = {"role": "user", "content": "word " * 100_000}
            refused = await client.post(
                "/v1/chat/completions", json={"model": "tiny", "messages": [long]}
            )

    assert f"the {shown['context_length'] - 1} tokens" in refused.json()["error"]["message"]
    assert refused.json()["error"]["code"] == "context_length_exceeded"


async def test_a_key_sees_its_own_models_only(tmp_path: Path) -> None:
    async with serving(CONFIG, tmp_path) as gateway:
        few = {"authorization": "Bearer key-of-few-models"}
        async with httpx.AsyncClient(base_url=gateway.url, headers=few, timeout=60) as client:
            listed = (await client.get("/v1/models")).json()
            refused = await client.get("/v1/models/chat")

    assert [model["id"] for model in listed["data"]] == ["plain"]
    assert refused.status_code == 404


async def test_openais_and_anthropics_clients_read_their_lists(tmp_path: Path) -> None:
    async with serving(CONFIG, tmp_path) as gateway:
        ours = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="key-of-all-models")
        theirs = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="key-of-all-models")
        async with ours, theirs:
            models = [model async for model in ours.models.list()]
            any_one = await ours.models.retrieve("any-1")
            claude = await theirs.models.retrieve("chat")
            dated = await theirs.models.retrieve("any-1")

    assert [model.id for model in models] == ["chat", "plain", "talk"]
    assert any_one.shutdown_date == "2031-05-06"
    assert (claude.max_input_tokens, claude.max_tokens) == (200_000, 64_000)
    assert (claude.lifecycle, claude.retires_at) == ("active", None)
    assert dated.lifecycle == "deprecated"
    assert dated.retires_at is not None
    assert dated.retires_at.year == 2031
