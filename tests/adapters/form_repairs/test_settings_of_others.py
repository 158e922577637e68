"""Settings that every OpenAI client may send, at vendors which lack a value of them."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import (
    Json,
    Rig,
    dropped,
    one_of_each,
    repairs,
)

pytestmark = pytest.mark.anyio

TOOLS: list[Json] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("f", "g")
]
NAMED: Json = {"type": "function", "function": {"name": "g"}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    vendors = "azure ollama ollama-responses vllm-responses openai-responses azure-responses "
    vendors += "openrouter cohere anthropic vertex-anthropic"
    async with one_of_each(tmp_path_factory.mktemp("settings"), *vendors.split()) as one:
        yield one


async def test_the_greatest_effort_is_ollamas_greatest(rig: Rig) -> None:
    answer = await rig.chat("ollama", reasoning_effort="xhigh")

    assert answer.status_code == 200, answer.text
    assert rig.sent["think"] == "high"
    assert "reasoning_effort:effort" in repairs(answer)


async def test_the_greatest_effort_is_coheres_greatest(rig: Rig) -> None:
    answer = await rig.chat("cohere", reasoning_effort="max")

    assert answer.status_code == 200, answer.text
    assert rig.sent["thinking"] == {"type": "enabled"}


@pytest.mark.parametrize("model", ["ollama", "ollama-responses"])
@pytest.mark.parametrize(("choice", "offered"), [("required", 2), (NAMED, 1)])
async def test_a_forced_call_is_the_models_choice_at_ollama(
    rig: Rig, model: str, choice: object, offered: int
) -> None:
    answer = await rig.chat(model, tools=TOOLS, tool_choice=choice)

    assert answer.status_code == 200, answer.text
    assert len(cast("list[Json]", rig.sent["tools"])) == offered
    assert "tool_choice" not in rig.sent or rig.sent["tool_choice"] == "auto"
    assert any(one.endswith(":free_choice") for one in repairs(answer))


@pytest.mark.parametrize("model", ["vllm-responses", "ollama-responses"])
async def test_a_json_object_is_asked_for_in_words(rig: Rig, model: str) -> None:
    answer = await rig.chat(model, response_format={"type": "json_object"})

    assert answer.status_code == 200, answer.text
    assert b"JSON" in rig.vendor.requests[-1].body
    assert "response_format:described_json" in repairs(answer)


async def test_azures_deployments_get_the_word_json(rig: Rig) -> None:
    answer = await rig.chat("azure/my-deployment", response_format={"type": "json_object"})

    assert answer.status_code == 200, answer.text
    assert b"JSON" in rig.vendor.requests[-1].body
    assert any(one.endswith(":json_word") for one in repairs(answer))


@pytest.mark.parametrize("model", ["openai-responses", "azure-responses"])
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
async def test_a_smaller_limit_is_raised_to_sixteen_tokens(
    rig: Rig, model: str, surface: str
) -> None:
    if surface == "chat":
        answer = await rig.chat(model, max_tokens=1)
    elif surface == "messages":
        answer = await rig.messages(model, max_tokens=1)
    else:
        answer = await rig.responses(model, max_output_tokens=1)

    assert answer.status_code == 200, answer.text
    assert rig.sent["max_output_tokens"] == 16
    assert any(one.endswith(":least_tokens") for one in repairs(answer))


async def test_a_smaller_limit_of_openais_models_is_raised_at_openrouter(rig: Rig) -> None:
    await rig.chat("openrouter/openai/gpt-5.5", max_tokens=10)
    assert rig.sent["max_tokens"] == 16

    answer = await rig.chat("openrouter/meta-llama/llama-4", max_tokens=10)
    assert rig.sent["max_tokens"] == 10
    assert repairs(answer) == []


@pytest.mark.parametrize("model", ["anthropic", "vertex-anthropic"])
@pytest.mark.parametrize("tier", ["default", "auto"])
async def test_openais_usual_tiers_are_what_claude_does_without_any(
    rig: Rig, model: str, tier: str
) -> None:
    answer = await rig.chat(model, service_tier=tier)

    assert answer.status_code == 200, answer.text
    assert "service_tier" not in rig.sent
    assert dropped(answer) == ["service_tier"]
