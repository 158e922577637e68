"""Calls without arguments, results without content and blank texts beside calls are all sent."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import cast

import httpx
import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

OPENAIS = ("openai", "vllm", "openai-responses")
HI: Json = {"role": "user", "content": "hi"}
GO_ON: Json = {"role": "user", "content": "go on"}
FUNCTION: Json = {"type": "function", "function": {"name": "f"}}
TOOL: Json = {"name": "f", "input_schema": {"type": "object", "properties": {}}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("empty")
    async with one_of_each(
        folder, *OPENAIS, "mistral", "anthropic", "vertex-anthropic", "gemini"
    ) as one:
        yield one


async def with_arguments(rig: Rig, surface: str, model: str, text: str) -> httpx.Response:
    if surface == "responses":
        call: Json = {"type": "function_call", "call_id": "a", "name": "f", "arguments": text}
        result: Json = {"type": "function_call_output", "call_id": "a", "output": "r"}
        tools = [{"type": "function", "name": "f", "parameters": TOOL["input_schema"]}]
        return await rig.responses(model, input=[HI, call, result, GO_ON], tools=tools)
    asked = {"type": "function", "id": "a", "function": {"name": "f", "arguments": text}}
    turn: Json = {"role": "assistant", "content": None, "tool_calls": [asked]}
    told: Json = {"role": "tool", "tool_call_id": "a", "content": "r"}
    return await rig.chat(model, messages=[HI, turn, told, GO_ON], tools=[FUNCTION])


@pytest.mark.parametrize("text", ["", " "])
@pytest.mark.parametrize("surface", ["chat", "responses"])
@pytest.mark.parametrize("model", OPENAIS)
async def test_blank_arguments_are_an_empty_object(
    rig: Rig, model: str, surface: str, text: str
) -> None:
    answer = await with_arguments(rig, surface, model, text)

    assert answer.status_code == 200, answer.text
    sent = cast("Sequence[Mapping[str, Json]]", rig.sent.get("messages") or rig.sent["input"])
    calls = cast("Sequence[Mapping[str, Json]]", sent[1].get("tool_calls") or [])
    assert (calls[0]["function"] if calls else sent[1])["arguments"] == "{}"
    assert any(one.endswith("arguments") for one in repairs(answer))


def blocks(text: str, result: object) -> list[Json]:
    call: Json = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    told: Json = {"type": "tool_result", "tool_use_id": "a", "content": result}
    turn: Json = {"role": "assistant", "content": [{"type": "text", "text": text}, call]}
    return [HI, turn, {"role": "user", "content": [told, {"type": "text", "text": "go on"}]}]


@pytest.mark.parametrize("text", ["", " ", "\n"])
@pytest.mark.parametrize("model", ["anthropic", "vertex-anthropic", "gemini"])
async def test_a_blank_text_beside_a_call_is_left_out(rig: Rig, model: str, text: str) -> None:
    answer = await rig.messages(model, messages=blocks(text, "r"), tools=[TOOL])

    assert answer.status_code == 200, answer.text
    assert f'"text": {json.dumps(text)}' not in json.dumps(rig.sent)
    assert "messages[].content:blank_text" in repairs(answer)


@pytest.mark.parametrize("model", ["openai", "mistral", "gemini"])
async def test_a_result_of_no_blocks_is_an_empty_text(rig: Rig, model: str) -> None:
    answer = await rig.messages(model, messages=blocks("So.", []), tools=[TOOL])

    assert answer.status_code == 200, answer.text
    assert '"content": []' not in json.dumps(rig.sent)
    assert "go on" in json.dumps(rig.sent)
