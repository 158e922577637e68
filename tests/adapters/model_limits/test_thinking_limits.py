"""Models that think by default take forced calls, and calls of earlier turns."""

from collections.abc import AsyncGenerator
from typing import cast

import httpx
import pytest

from tests.adapters.repairs.histories import SURFACES, converse
from tests.adapters.repairs.one_of_each import (
    Json,
    Rig,
    dropped,
    one_of_each,
    repairs,
)

pytestmark = pytest.mark.anyio

SCHEMA: Json = {"type": "object", "properties": {}}
NAMED = {
    "chat": {"type": "function", "function": {"name": "f"}},
    "messages": {"type": "tool", "name": "f"},
    "responses": {"type": "function", "name": "f"},
}
ANY = {"chat": "required", "messages": {"type": "any"}, "responses": "required"}
AUTO = {"chat": "auto", "messages": {"type": "auto"}, "responses": "auto"}
EFFORTS = {
    "chat": {"reasoning_effort": "high"},
    "messages": {"output_config": {"effort": "high"}},
    "responses": {"reasoning": {"effort": "high"}},
}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with one_of_each(
        tmp_path_factory.mktemp("thinking"),
        *("deepseek", "moonshot", "dashscope", "zai", "openrouter"),
    ) as one:
        yield one


def tool(surface: str, name: str) -> Json:
    if surface == "messages":
        return {"name": name, "input_schema": SCHEMA}
    inner: Json = {"name": name, "parameters": SCHEMA}
    return {"type": "function", **(inner if surface == "responses" else {"function": inner})}


async def ask(rig: Rig, surface: str, model: str, choice: object, **more: object) -> httpx.Response:
    send = {"chat": rig.chat, "messages": rig.messages, "responses": rig.responses}[surface]
    tools = [tool(surface, "f"), tool(surface, "g")]
    answer = await send(model, tools=tools, tool_choice=choice, **more)
    assert answer.status_code == 200, answer.text
    return answer


OFF = {
    "deepseek/deepseek-v4-pro": ("thinking", {"type": "disabled"}),
    "deepseek/deepseek-flash": ("thinking", {"type": "disabled"}),
    "moonshot/kimi-k2.6": ("thinking", {"type": "disabled"}),
    "dashscope/qwen3.7-plus": ("enable_thinking", False),
}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("effort", [True, False], ids=["with an effort", "by default"])
@pytest.mark.parametrize("forms", [NAMED, ANY], ids=["one function", "any function"])
@pytest.mark.parametrize("model", OFF)
async def test_a_forced_call_switches_thinking_off(
    rig: Rig, model: str, forms: dict[str, object], effort: bool, surface: str
) -> None:
    more = EFFORTS[surface] if effort else {}
    answer = await ask(rig, surface, model, forms[surface], **more)

    field, value = OFF[model]
    assert rig.sent[field] == value
    assert "reasoning_effort" not in rig.sent
    assert rig.sent["tool_choice"] == (ANY["chat"] if forms is ANY else NAMED["chat"])
    assert [one.rpartition(":")[2] for one in repairs(answer)] == ["forced_call"]


@pytest.mark.parametrize("model", OFF)
async def test_a_free_choice_leaves_thinking_on(rig: Rig, model: str) -> None:
    for surface in SURFACES:
        answer = await ask(rig, surface, model, AUTO[surface], **EFFORTS[surface])

        assert OFF[model][0] not in rig.sent
        assert rig.sent["reasoning_effort"] == "high"
        assert repairs(answer) == []


@pytest.mark.parametrize(
    ("model", "more", "field"),
    [
        ("deepseek/deepseek-chat", {}, "thinking"),
        ("dashscope/qwen-plus", {}, "enable_thinking"),
        ("dashscope/qwen3-30b-a3b-instruct-2507", {}, "enable_thinking"),
        ("moonshot/moonshot-v1-8k", {}, "thinking"),
    ],
)
async def test_models_that_do_not_think_need_no_switch(
    rig: Rig, model: str, more: Json, field: str
) -> None:
    answer = await ask(rig, "chat", model, "required", **more)

    assert (field in rig.sent, repairs(answer)) == (False, [])


@pytest.mark.parametrize(
    ("model", "given", "sent"),
    [
        ("deepseek/deepseek-v4-pro", {"thinking": {"type": "enabled"}}, {"type": "disabled"}),
        ("dashscope/qwen-plus", {"enable_thinking": True}, False),
    ],
)
async def test_a_client_that_asks_for_both_gets_the_call(
    rig: Rig, model: str, given: Json, sent: object
) -> None:
    await ask(rig, "chat", model, "required", **given)

    assert rig.sent[next(iter(given))] == sent


async def test_a_client_that_switches_thinking_off_is_left_alone(rig: Rig) -> None:
    off = {"thinking": {"type": "disabled"}}
    answer = await ask(rig, "chat", "deepseek/deepseek-v4-pro", "required", **off)

    assert (rig.sent["thinking"], repairs(answer)) == ({"type": "disabled"}, [])


@pytest.mark.parametrize("surface", SURFACES)
async def test_kimi_3_is_offered_the_one_function_that_it_has_to_call(
    rig: Rig, surface: str
) -> None:
    await ask(rig, surface, "moonshot/kimi-k3", NAMED[surface])

    tools = cast("list[Json]", rig.sent["tools"])
    assert [cast("Json", one["function"])["name"] for one in tools] == ["f"]
    assert (rig.sent["tool_choice"], "thinking" in rig.sent) == ("required", False)


@pytest.mark.parametrize(
    "model",
    [
        "moonshot/kimi-k2.7-code",
        "dashscope/qwen3-235b-a22b-thinking-2507",
        "zai/glm-5.3",
        "openrouter/z-ai/glm-5.3",
    ],
)
async def test_a_model_that_cannot_be_forced_chooses_itself(rig: Rig, model: str) -> None:
    answer = await ask(rig, "chat", model, "required")

    assert (rig.sent["tool_choice"], repairs(answer)) == ("auto", ["tool_choice:free_choice"])


@pytest.mark.parametrize("surface", SURFACES)
async def test_such_a_model_is_offered_the_named_function_alone(rig: Rig, surface: str) -> None:
    answer = await ask(rig, surface, "zai/glm-5.3", NAMED[surface])

    tools = cast("list[Json]", rig.sent["tools"])
    assert [cast("Json", one["function"])["name"] for one in tools] == ["f"]
    assert rig.sent["tool_choice"] == "auto"
    assert {one.rpartition(":")[2] for one in repairs(answer)} == {"free_choice"}


def reasoning(rig: Rig) -> list[object]:
    turns = cast("list[Json]", rig.sent["messages"])
    return [one.get("reasoning_content") for one in turns if one["role"] == "assistant"]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("model", ["moonshot/kimi-k2.6", "deepseek/deepseek-v4-pro"])
async def test_calls_of_another_model_get_blank_reasoning(
    rig: Rig, model: str, surface: str
) -> None:
    answer = await converse(rig, surface, model, ["hi", ["call00001"], ("call00001", "r"), "go on"])

    assert answer.status_code == 200, answer.text
    assert reasoning(rig) == [" "]
    assert [one.rpartition(":")[2] for one in repairs(answer)] == ["missing_reasoning"]
    assert dropped(answer) == []


@pytest.mark.parametrize("model", ["moonshot/moonshot-v1-8k", "deepseek/deepseek-chat"])
async def test_models_that_do_not_think_get_none(rig: Rig, model: str) -> None:
    await converse(rig, "chat", model, ["hi", ["call00001"], ("call00001", "r"), "go on"])

    assert reasoning(rig) == [None]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("model", ["moonshot/kimi-k2.6", "deepseek/deepseek-v4-pro"])
async def test_reasoning_that_the_client_has_is_sent(rig: Rig, model: str, field: str) -> None:
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turns: list[Json] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call], field: "think"},
        {"role": "tool", "tool_call_id": "call00001", "content": "r"},
    ]
    await rig.chat(model, messages=turns)

    assert reasoning(rig) == ["think"]


async def test_a_forced_call_needs_no_reasoning_of_earlier_ones(rig: Rig) -> None:
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turns: list[Json] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00001", "content": "r"},
    ]
    await ask(rig, "chat", "moonshot/kimi-k2.6", "required", messages=turns)

    assert reasoning(rig) == [None]
