"""Roles that a vendor does not know, and system messages in the middle of a conversation."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.gateway.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

WITHOUT = (
    "deepseek",
    "moonshot",
    "vllm",
    "sglang",
    "llama-cpp",
    "lm-studio",
    "siliconflow",
    "xai",
    "openrouter",
    "databricks",
    "mistral",
    "tgi",
    "mindie",
    "cohere",
    "ollama",
)
OTHER_RESPONSES = ("vllm-responses", "ollama-responses", "lm-studio-responses")
HEADED = ("anthropic", "bedrock", "gemini")
LATER: list[Json] = [
    {"role": "system", "content": "A"},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "system", "content": "REMINDER"},
    {"role": "user", "content": "three"},
]


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("roles")
    async with one_of_each(folder, *WITHOUT, *HEADED, *OTHER_RESPONSES, "openai") as one:
        yield one


def roles(rig: Rig) -> list[object]:
    return [one["role"] for one in cast("list[Json]", rig.sent["messages"])]


@pytest.mark.parametrize("model", WITHOUT)
@pytest.mark.parametrize("surface", ["chat", "responses"])
async def test_developer_becomes_system_where_only_openai_knows_it(
    rig: Rig, model: str, surface: str
) -> None:
    turns = [{"role": "developer", "content": "D"}, {"role": "user", "content": "u"}]
    if surface == "chat":
        answer = await rig.chat(model, messages=turns)
    else:
        answer = await rig.responses(model, input=turns)

    assert answer.status_code == 200, answer.text
    assert roles(rig) == ["system", "user"]
    place = "messages[].role" if surface == "chat" else "input[].role"
    assert repairs(answer) == [f"{place}:developer_role"]


@pytest.mark.parametrize("model", OTHER_RESPONSES)
@pytest.mark.parametrize("surface", ["chat", "responses"])
async def test_other_servers_of_the_responses_api_get_the_system(
    rig: Rig, model: str, surface: str
) -> None:
    turns = [{"role": "developer", "content": "D"}, {"role": "user", "content": "u"}]
    answer = await (
        rig.chat(model, messages=turns) if surface == "chat" else rig.responses(model, input=turns)
    )

    assert answer.status_code == 200, answer.text
    assert [one["role"] for one in cast("list[Json]", rig.sent["input"])] == ["system", "user"]


async def test_what_else_the_message_has_stays(rig: Rig) -> None:
    turns = [
        {"role": "developer", "content": "D", "name": "n", "x": 1},
        {"role": "user", "content": "u"},
    ]
    await rig.chat("siliconflow", messages=turns)

    first = cast("list[Json]", rig.sent["messages"])[0]
    assert first == {"role": "system", "content": "D", "name": "n", "x": 1}


@pytest.mark.parametrize(("model", "role"), [("gpt-5.5", "developer"), ("qwen3", "system")])
async def test_behind_an_unknown_address_the_model_decides(rig: Rig, model: str, role: str) -> None:
    turns = [{"role": "developer", "content": "D"}, {"role": "user", "content": "u"}]
    await rig.chat(f"openai/{model}", messages=turns)

    assert roles(rig) == [role, "user"]


@pytest.mark.parametrize("model", HEADED)
async def test_a_later_system_message_keeps_its_place(rig: Rig, model: str) -> None:
    answer = await rig.chat(model, messages=LATER)

    assert answer.status_code == 200, answer.text
    body = rig.sent
    head = json.dumps(body.get("system") or body.get("systemInstruction"))
    turns = json.dumps(body.get("messages") or body.get("contents"))
    assert "A" in head
    assert "REMINDER" not in head
    assert turns.index("two") < turns.index("REMINDER") < turns.index("three")
    assert repairs(answer) == ["messages[].role:later_system"]


@pytest.mark.parametrize("model", HEADED)
async def test_system_messages_at_the_head_stay_there(rig: Rig, model: str) -> None:
    turns = [LATER[0], {"role": "developer", "content": "B"}, LATER[1]]
    answer = await rig.chat(model, messages=turns)

    assert not repairs(answer)
    body = rig.sent
    assert "B" in json.dumps(body.get("system") or body.get("systemInstruction"))


async def test_a_cached_plan_repairs_every_request(rig: Rig) -> None:
    for text in ("first", "second"):
        turns = [{"role": "developer", "content": text}, {"role": "user", "content": "u"}]
        answer = await rig.chat("deepseek", messages=turns)
        assert repairs(answer) == ["messages[].role:developer_role"]
        assert cast("list[Json]", rig.sent["messages"])[0] == {"role": "system", "content": text}
    plain = await rig.chat("deepseek")
    assert not repairs(plain)
