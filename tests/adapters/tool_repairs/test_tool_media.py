"""Images and files of tool results are sent where each vendor reads them."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import httpx
import pytest

from strowger_gateway.adapters.tool_repairs.tool_media import MOVED
from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each, repairs

pytestmark = pytest.mark.anyio

TEXT_ONLY = (
    "openai",
    "azure",
    "openrouter",
    "vllm",
    "sglang",
    "databricks",
    "mistral",
    "moonshot",
    "tgi",
    "mindie",
)
IN_RESULTS = ("openai-responses", "gemini", "anthropic", "bedrock", "ollama")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
URL = f"data:image/png;base64,{PNG}"
IMAGE: Json = {"type": "image_url", "image_url": {"url": URL}}
SCHEMA: Json = {"type": "object", "properties": {"q": {"type": "string"}}}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("media")
    async with one_of_each(folder, *TEXT_ONLY, *IN_RESULTS, "cohere") as one:
        yield one


async def send(rig: Rig, surface: str, model: str) -> httpx.Response:
    """Send two results: an image alone, and a text with an image."""
    ids = ("call00001", "call00002")
    if surface == "chat":
        calls = [
            {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for id in ids
        ]
        turns: list[Json] = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": ids[0], "content": [IMAGE]},
            {
                "role": "tool",
                "tool_call_id": ids[1],
                "content": [{"type": "text", "text": "a"}, IMAGE],
            },
            {"role": "user", "content": "go on"},
        ]
        tools: list[Json] = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
        return await rig.chat(model, messages=turns, tools=tools)
    if surface == "messages":
        block = {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": PNG},
        }
        uses: list[Json] = [{"type": "tool_use", "id": id, "name": "f", "input": {}} for id in ids]
        results = [
            {"type": "tool_result", "tool_use_id": ids[0], "content": [block]},
            {
                "type": "tool_result",
                "tool_use_id": ids[1],
                "content": [{"type": "text", "text": "a"}, block],
            },
            {"type": "text", "text": "go on"},
        ]
        turns = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": uses},
            {"role": "user", "content": results},
        ]
        return await rig.messages(
            model, messages=turns, tools=[{"name": "f", "input_schema": SCHEMA}]
        )
    part = {"type": "input_image", "image_url": URL, "detail": "auto"}
    items: list[Json] = [
        {"role": "user", "content": "hi"},
        *[{"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"} for id in ids],
        {"type": "function_call_output", "call_id": ids[0], "output": [part]},
        {
            "type": "function_call_output",
            "call_id": ids[1],
            "output": [{"type": "input_text", "text": "a"}, part],
        },
        {"role": "user", "content": "go on"},
    ]
    functions = [{"type": "function", "name": "f", "parameters": SCHEMA}]
    return await rig.responses(model, input=items, tools=functions)


@pytest.mark.parametrize("model", TEXT_ONLY)
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
async def test_images_follow_the_results_each_after_its_call(
    rig: Rig, surface: str, model: str
) -> None:
    answer = await send(rig, surface, model)

    assert answer.status_code == 200, answer.text
    messages = cast("list[Json]", rig.sent["messages"])
    assert [one["role"] for one in messages[:4]] == ["user", "assistant", "tool", "tool"]
    assert [texts(one) for one in messages[2:4]] == [[MOVED], ["a"]]
    place = 5 if model == "mistral" else 4  # whose models answer before the user speaks
    after = messages[place]
    assert after["role"] == "user"
    parts = cast("list[Json]", after["content"])
    kinds = [part["type"] for part in parts[:4]]
    assert kinds == ["text", "image_url", "text", "image_url"]
    assert texts(after)[:2] == ["Image of call call00001:", "Image of call call00002:"]
    assert json.dumps(messages[place:]).count("go on") == 1
    assert any(one.endswith(":tool_media") for one in repairs(answer))


def texts(message: Json) -> list[object]:
    content = message["content"]
    if isinstance(content, list):
        return [one["text"] for one in cast("list[Json]", content) if one["type"] == "text"]
    return [content]


async def test_cohere_gets_them_from_the_user(rig: Rig) -> None:
    answer = await send(rig, "messages", "cohere")

    assert answer.status_code == 200, answer.text
    messages = cast("list[Json]", rig.sent["messages"])
    assert "image_url" not in json.dumps(messages[2:4])
    assert "image_url" in json.dumps(messages[4])


@pytest.mark.parametrize("model", IN_RESULTS)
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
async def test_a_vendor_whose_results_hold_images_gets_them_there(
    rig: Rig, surface: str, model: str
) -> None:
    answer = await send(rig, surface, model)

    assert answer.status_code == 200, answer.text
    assert not any("tool_media" in one for one in repairs(answer))
    body = rig.vendor.requests[-1].body.decode()
    assert MOVED not in body
    assert body.count(PNG) == 2


async def test_an_older_gemini_gets_them_from_the_user(rig: Rig) -> None:
    await send(rig, "chat", "gemini/gemini-2.5-flash")

    turns = cast("list[Json]", rig.sent["contents"])
    assert PNG not in json.dumps(turns[2])
    assert json.dumps(turns[3:]).count(PNG) == 2


async def test_audio_and_files_move_as_well(rig: Rig) -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    file = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0="}}
    calls = [
        {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for id in ("a", "b")
    ]
    turns: list[Json] = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": [audio]},
        {"role": "tool", "tool_call_id": "b", "content": [file]},
    ]
    answer = await rig.chat("openai", messages=turns)

    assert answer.status_code == 200, answer.text
    after = cast("list[Json]", rig.sent["messages"])[4]
    assert texts(after) == ["Audio of call a:", "File of call b:"]
