"""Turns that Google, Cohere and servers of open models refuse, as Claude does."""

import json
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

HI: Json = {"role": "user", "content": "hi"}
YES: Json = {"role": "assistant", "content": "Yes,"}
NOTHING = "(no content)"


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("others")
    vendors = "gemini cohere ollama vllm sglang openai vllm-responses mistral openrouter "
    vendors += "databricks nvidia-nim"
    async with one_of_each(folder, *vendors.split()) as one:
        yield one


def contents(rig: Rig) -> list[tuple[object, object]]:
    """Return the role and the parts of each of Gemini's turns."""
    return [(one["role"], one["parts"]) for one in cast("list[Json]", rig.sent["contents"])]


def said(role: str, text: str) -> tuple[object, object]:
    return role, [{"text": text}]


def call(arguments: str) -> list[Json]:
    made: Json = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    result: Json = {"role": "tool", "tool_call_id": "c1", "content": "Failed."}
    return [HI, {"role": "assistant", "content": None, "tool_calls": [made]}, result]


@pytest.mark.parametrize("content", ["", " \n", [{"type": "text", "text": ""}]])
async def test_a_blank_turn_of_the_user_says_so_at_gemini(rig: Rig, content: object) -> None:
    answer = await rig.chat("gemini", messages=[{"role": "user", "content": content}])

    assert answer.status_code == 200, answer.text
    assert contents(rig) == [said("user", NOTHING)]
    assert "messages[].content:blank_text" in repairs(answer)


async def test_a_blank_turn_of_the_user_says_so_at_cohere(rig: Rig) -> None:
    answer = await rig.chat("cohere", messages=[{"role": "user", "content": ""}])

    assert answer.status_code == 200, answer.text
    (turn,) = cast("list[Json]", rig.sent["messages"])
    assert turn["content"] == NOTHING


async def test_a_generated_image_is_more_than_a_blank_turn(rig: Rig) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    turn: Json = {"role": "assistant", "content": None, "images": [image]}
    answer = await rig.chat("gemini", messages=[HI, turn, HI])

    assert answer.status_code == 200, answer.text
    sent = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    assert contents(rig)[1] == ("model", [sent])


async def test_a_conversation_with_gemini_begins_with_the_user(rig: Rig) -> None:
    answer = await rig.chat("gemini", messages=[YES, HI])

    assert answer.status_code == 200, answer.text
    assert contents(rig) == [said("user", NOTHING), said("model", "Yes,"), said("user", "hi")]


@pytest.mark.parametrize("model", ["gemini-3.6-flash", "gemini-3.5-flash-lite"])
async def test_newer_gemini_models_get_a_turn_of_the_user_last(rig: Rig, model: str) -> None:
    answer = await rig.chat(f"gemini/{model}", messages=[HI, YES])

    assert answer.status_code == 200, answer.text
    assert contents(rig)[-1] == said("user", "Continue.")
    assert "messages[]:prefill" in repairs(answer)


async def test_older_gemini_models_continue_an_answer(rig: Rig) -> None:
    answer = await rig.chat("gemini/gemini-3.5-flash", messages=[HI, YES])

    assert answer.status_code == 200, answer.text
    assert contents(rig)[-1] == said("model", "Yes,")
    assert repairs(answer) == []


async def test_newer_gemini_models_elsewhere_get_a_turn_of_the_user_last(rig: Rig) -> None:
    answer = await rig.chat("openrouter/google/gemini-3.7-flash", messages=[HI, YES])

    assert answer.status_code == 200, answer.text
    assert cast("list[Json]", rig.sent["messages"])[-1] == {"role": "user", "content": "Continue."}


@pytest.mark.parametrize("model", ["vllm", "sglang"])
@pytest.mark.parametrize(
    ("arguments", "sent"),
    [('{"path": "a', {"arguments": '{"path": "a'}), ("[1]", {"arguments": [1]})],
)
async def test_servers_of_open_models_get_arguments_that_are_an_object(
    rig: Rig, model: str, arguments: str, sent: Json
) -> None:
    answer = await rig.chat(model, messages=call(arguments))

    assert answer.status_code == 200, answer.text
    turn = cast("list[dict[str, list[dict[str, dict[str, str]]]]]", rig.sent["messages"])[1]
    assert json.loads(turn["tool_calls"][0]["function"]["arguments"]) == sent
    assert "messages[].tool_calls[].function.arguments:call_arguments" in repairs(answer)


@pytest.mark.parametrize("model", ["gemini", "ollama", "vllm-responses"])
async def test_half_of_an_object_is_in_an_object_everywhere(rig: Rig, model: str) -> None:
    answer = await rig.chat(model, messages=call('{"path": "a'))

    assert answer.status_code == 200, answer.text
    assert any(one.endswith(":call_arguments") for one in repairs(answer))


async def test_openais_models_take_arguments_as_they_are(rig: Rig) -> None:
    answer = await rig.chat("openai/gpt-4.1", messages=call('{"path": "a'))

    assert answer.status_code == 200, answer.text
    assert repairs(answer) == []


CLAUDES = [
    "openrouter/anthropic/claude-sonnet-4.5",
    "databricks/databricks-claude-sonnet-4-5",
    "openai/claude-sonnet-4-5",
]


@pytest.mark.parametrize("model", CLAUDES)
async def test_claude_behind_another_server_gets_what_it_takes(rig: Rig, model: str) -> None:
    made: Json = {"id": "functions.f:0", "type": "function"}
    made["function"] = {"name": "f", "arguments": "{}"}
    turns: list[Json] = [
        {"role": "user", "content": " "},
        {"role": "assistant", "content": "", "tool_calls": [made]},
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "1"},
    ]
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    answer = await rig.chat(model, messages=turns, tools=[tool])

    assert answer.status_code == 200, answer.text
    asked, called, result = cast("list[Json]", rig.sent["messages"])
    assert asked["content"] == NOTHING
    assert called["content"] is None
    (call,) = cast("list[dict[str, str]]", called["tool_calls"])
    assert call["id"] == result["tool_call_id"]
    assert call["id"].isalnum()


async def test_nvidia_gets_no_empty_text_beside_calls(rig: Rig) -> None:
    user, turn, result = call("{}")
    answer = await rig.chat("nvidia-nim", messages=[user, {**turn, "content": ""}, result])

    assert answer.status_code == 200, answer.text
    assert cast("list[Json]", rig.sent["messages"])[1]["content"] is None


async def test_other_makers_models_keep_their_ids_and_texts(rig: Rig) -> None:
    made = {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    turn: Json = {"role": "assistant", "content": "", "tool_calls": [made]}
    result: Json = {"role": "tool", "tool_call_id": "functions.f:0", "content": "1"}
    answer = await rig.chat("openrouter/moonshotai/kimi-k2", messages=[HI, turn, result])

    assert answer.status_code == 200, answer.text
    assert rig.sent["messages"] == [HI, turn, result]


async def test_mistral_gets_a_turn_of_the_user_last(rig: Rig) -> None:
    answer = await rig.chat("mistral", messages=[HI, YES])

    assert answer.status_code == 200, answer.text
    assert cast("list[Json]", rig.sent["messages"])[-1] == {"role": "user", "content": "Continue."}


async def test_mistral_continues_an_answer_that_says_so(rig: Rig) -> None:
    answer = await rig.chat("mistral", messages=[HI, {**YES, "prefix": True}])

    assert answer.status_code == 200, answer.text
    assert cast("list[Json]", rig.sent["messages"])[-1] == {**YES, "prefix": True}


async def test_cohere_gets_a_result_that_says_that_it_is_none(rig: Rig) -> None:
    user, turn, result = call("{}")
    answer = await rig.chat("cohere", messages=[user, turn, {**result, "content": ""}])

    assert answer.status_code == 200, answer.text
    assert NOTHING.encode() in rig.vendor.requests[-1].body
    assert "messages[].content:blank_result" in repairs(answer)


async def test_cohere_gets_an_images_bare_address_as_an_object(rig: Rig) -> None:
    url = "data:image/png;base64,iVBORw0KGgo="
    image = {"type": "image_url", "image_url": url}
    answer = await rig.chat("cohere", messages=[{"role": "user", "content": [image]}])

    assert answer.status_code == 200, answer.text
    (turn,) = cast("list[dict[str, list[Json]]]", rig.sent["messages"])
    assert turn["content"] == [{"type": "image_url", "image_url": {"url": url}}]


REFUSED: Json = {"role": "assistant", "content": None, "refusal": "I will not."}


@pytest.mark.parametrize("model", ["mistral", "vllm", "sglang"])
async def test_what_openais_model_refused_is_the_turns_text_elsewhere(rig: Rig, model: str) -> None:
    answer = await rig.chat(model, messages=[HI, REFUSED, HI])

    assert answer.status_code == 200, answer.text
    said = {"role": "assistant", "content": "I will not."}
    assert cast("list[Json]", rig.sent["messages"])[1] == said
    assert "messages[].refusal:answer_field" in repairs(answer)


async def test_openai_gets_its_refusal_back(rig: Rig) -> None:
    answer = await rig.chat("openai/gpt-4.1", messages=[HI, REFUSED, HI])

    assert cast("list[Json]", rig.sent["messages"])[1] == REFUSED
    assert repairs(answer) == dropped(answer) == []
