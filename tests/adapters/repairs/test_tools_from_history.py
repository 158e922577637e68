"""A conversation with calls is answered where the vendor wants their tools, without any offered."""

from collections.abc import AsyncGenerator, Mapping
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

PLACE: Json = {"type": "object", "properties": {"at": {"type": "string"}}}
CHAT: list[Json] = [
    {"role": "user", "content": "hi"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "r"},
    {"role": "tool", "tool_call_id": "b", "content": "s"},
    {"role": "user", "content": "summarise"},
]
BLOCKS: list[Json] = [
    {"role": "user", "content": "hi"},
    {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "a", "name": "f", "input": {}},
            {"type": "tool_use", "id": "b", "name": "g", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "r"},
            {"type": "tool_result", "tool_use_id": "b", "content": "s"},
            {"type": "text", "text": "summarise"},
        ],
    },
]
ITEMS: list[Json] = [
    {"role": "user", "content": "hi"},
    {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
    {"type": "function_call", "call_id": "b", "name": "g", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "a", "output": "r"},
    {"type": "function_call_output", "call_id": "b", "output": "s"},
    {"role": "user", "content": "summarise"},
]
FUNCTION: Json = {"type": "function", "function": {"name": "f", "parameters": PLACE}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("history")
    async with one_of_each(folder, "bedrock", "anthropic", "vertex-anthropic") as one:
        yield one


def tools_of(sent: Json) -> list[str]:
    config = cast("Mapping[str, list[Mapping[str, Json]]]", sent["toolConfig"])
    return [str(one["toolSpec"]["name"]) for one in config["tools"]]


@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
@pytest.mark.parametrize("model", ["bedrock", "bedrock/amazon.nova-pro-v1:0"])
async def test_bedrock_gets_specifications_made_of_the_calls(
    rig: Rig, model: str, surface: str
) -> None:
    if surface == "chat":
        answer = await rig.chat(model, messages=CHAT)
    elif surface == "messages":
        answer = await rig.messages(model, messages=BLOCKS)
    else:
        answer = await rig.responses(model, input=ITEMS)

    assert answer.status_code == 200, answer.text
    assert tools_of(rig.sent) == ["f", "g"]
    assert "toolChoice" not in cast("Json", rig.sent["toolConfig"])
    assert "tools:tools_from_history" in repairs(answer)


@pytest.mark.parametrize("offered", [[], [FUNCTION]])
async def test_forbidden_calls_leave_the_tools_in_the_prompt(rig: Rig, offered: list[Json]) -> None:
    answer = await rig.chat("bedrock", messages=CHAT, tools=offered or None, tool_choice="none")

    assert answer.status_code == 200, answer.text
    assert tools_of(rig.sent) == (["f"] if offered else ["f", "g"])
    assert ("tool_choice" in dropped(answer)) is bool(offered)


async def test_a_model_can_insist_that_nothing_is_called(rig: Rig) -> None:
    answer = await rig.chat("bedrock", messages=CHAT[:1], tools=[FUNCTION], tool_choice="none")

    assert answer.status_code == 200, answer.text
    assert "toolConfig" not in rig.sent
    assert repairs(answer) == []


@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
@pytest.mark.parametrize("model", ["anthropic", "vertex-anthropic"])
async def test_claudes_own_api_gets_tools_made_of_the_calls(
    rig: Rig, model: str, surface: str
) -> None:
    if surface == "chat":
        answer = await rig.chat(model, messages=CHAT)
    elif surface == "messages":
        answer = await rig.messages(model, messages=BLOCKS)
    else:
        answer = await rig.responses(model, input=ITEMS)

    assert answer.status_code == 200, answer.text
    made = cast("list[Json]", rig.sent["tools"])
    assert [one["name"] for one in made] == ["f", "g"]
    assert "tool_choice" not in rig.sent
    assert "tools:tools_from_history" in repairs(answer)


async def test_claudes_own_tools_are_offers_too(rig: Rig) -> None:
    bash: Json = {"type": "bash_20250124", "name": "bash"}
    answer = await rig.messages("anthropic", messages=BLOCKS, tools=[bash])

    assert answer.status_code == 200, answer.text
    assert rig.sent["tools"] == [bash]
    assert repairs(answer) == []
