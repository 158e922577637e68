"""Turns come in the order that the model's template takes."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from strowger_gateway.adapters.form_repairs.turn_order import BRIDGE
from tests.adapters.repairs.histories import (
    SURFACES,
    calls_and_results,
    converse,
)
from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

A = "call00001"
TOOL_THEN_USER = ["hi", [A], (A, "r"), "go on"]


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("order")
    names = ("mistral", "nvidia-nim", "openrouter", "vllm", "openai", "perplexity", "gemini")
    async with one_of_each(folder, *names) as one:
        yield one


def turns(rig: Rig) -> list[tuple[object, object]]:
    sent = cast("list[Json]", rig.sent["messages"])
    return [(one["role"], one["content"]) for one in sent]


@pytest.mark.parametrize(
    "model",
    [
        "mistral",
        "nvidia-nim/mistralai/mistral-small-4-119b-2603",
        "openrouter/mistralai/devstral-medium",
        "vllm/Ministral-3-8B-Instruct",
        "openai/mistral-large-latest",
    ],
)
@pytest.mark.parametrize("surface", SURFACES)
async def test_mistrals_models_answer_between_a_result_and_the_user(
    rig: Rig, surface: str, model: str
) -> None:
    answer = await converse(rig, surface, model, TOOL_THEN_USER)

    assert answer.status_code == 200, answer.text
    assert turns(rig)[-3:] == [("tool", "r"), ("assistant", BRIDGE), ("user", "go on")]
    assert any(one.endswith(":answer_after_result") for one in repairs(answer))


@pytest.mark.parametrize("model", ["openai/gpt-4.1", "vllm/qwen3", "openrouter/x/llama-4"])
async def test_other_models_get_the_user_directly_after_the_result(rig: Rig, model: str) -> None:
    answer = await converse(rig, "chat", model, TOOL_THEN_USER)

    assert calls_and_results(rig.sent)[-2:] == [f"result {A} r", "user go on"]
    assert repairs(answer) == []


async def test_a_later_system_message_and_an_image_come_after_an_answer_at_mistral(
    rig: Rig,
) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    call = {"id": A, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    called: Json = {"role": "assistant", "content": "", "tool_calls": [call]}
    result: Json = {"role": "tool", "tool_call_id": A, "content": [image]}
    await rig.chat(
        "mistral",
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Hello."},
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "look"},
            called,
            result,
        ],
    )

    roles = [role for role, _ in turns(rig)]
    assert roles == ["user", "assistant", "user", "user", "assistant", "tool", "assistant", "user"]
    assert turns(rig)[2] == ("user", "<system>\nBe brief.\n</system>")


@pytest.mark.parametrize("surface", SURFACES)
async def test_speakers_alternate_at_perplexity(rig: Rig, surface: str) -> None:
    answer = await converse(rig, surface, "perplexity", ["one", "two", "three"])

    assert answer.status_code == 200, answer.text
    assert turns(rig) == [("user", "one\n\ntwo\n\nthree")]
    assert any(one.endswith(":alternating") for one in repairs(answer))


async def test_parts_and_other_fields_stay_when_messages_are_joined(rig: Rig) -> None:
    image: Json = {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}}
    await rig.chat(
        "perplexity",
        messages=[
            {"role": "user", "content": "look"},
            {"role": "user", "content": [image], "x_own": 1},
        ],
    )

    assert rig.sent["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "look"}, image], "x_own": 1}
    ]


async def test_an_answer_in_two_messages_is_one_turn_of_gemini(rig: Rig) -> None:
    call = {"id": A, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    await rig.chat(
        "gemini",
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Let me look."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": A, "content": "r"},
        ],
    )

    contents = cast("list[Json]", rig.sent["contents"])
    assert [one["role"] for one in contents] == ["user", "model", "user"]
    parts = json.dumps(contents[1])
    assert "Let me look." in parts
    assert "functionCall" in parts
