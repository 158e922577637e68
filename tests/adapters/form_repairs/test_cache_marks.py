"""Marks of prompt caches reach the vendors that read them, and no others."""

import json
from collections.abc import AsyncGenerator
from typing import cast

import httpx
import pytest

from tests.adapters.repairs.one_of_each import (
    Json,
    Rig,
    dropped,
    one_of_each,
    repairs,
)

pytestmark = pytest.mark.anyio

READ = ("openrouter", "databricks", "dashscope", "openai/claude-opus-4-8")
LACK = ("openai", "azure", "groq", "mistral", "vllm", "cerebras", "deepseek", "openai/gpt-5.5")
MARK: Json = {"cache_control": {"type": "ephemeral"}}
SCHEMA: Json = {"type": "object", "properties": {"q": {"type": "string"}}}
PDF: Json = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
    **MARK,
}


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("marks")
    names = {one.partition("/")[0] for one in (*READ, *LACK)}
    async with one_of_each(folder, *sorted(names), "openai-responses", "gemini") as one:
        yield one


async def send(rig: Rig, surface: str, model: str) -> httpx.Response:
    """Send marks on the system prompt, a tool, a text, a call's result and the last text."""
    if surface == "messages":
        use: dict[str, object] = {"type": "tool_use", "id": "call00001", "name": "f", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "call00001", "content": "r", **MARK}
        return await rig.messages(
            model,
            system=[{"type": "text", "text": "s", **MARK}],
            tools=[{"name": "f", "input_schema": SCHEMA, **MARK}],
            messages=[
                {"role": "user", "content": [{"type": "text", "text": "x", **MARK}]},
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [result, {"type": "text", "text": "y", **MARK}]},
            ],
        )
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": "{}"}}

    def text(one: str) -> list[Json]:
        return [{"type": "text", "text": one, **MARK}]

    return await rig.chat(
        model,
        tools=[{"type": "function", "function": {"name": "f", "parameters": SCHEMA}, **MARK}],
        messages=[
            {"role": "system", "content": text("s")},
            {"role": "user", "content": text("x")},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call00001", "content": text("r")},
            {"role": "user", "content": text("y"), **MARK},
        ],
    )


@pytest.mark.parametrize("model", READ)
@pytest.mark.parametrize("surface", ["messages", "chat"])
async def test_marks_reach_a_vendor_that_reads_them(rig: Rig, surface: str, model: str) -> None:
    answer = await send(rig, surface, model)

    assert answer.status_code == 200, answer.text
    messages = cast("list[Json]", rig.sent["messages"])
    for place in (0, 1, 3, 4):
        last = cast("list[Json]", messages[place]["content"])[-1]
        assert last["cache_control"] == {"type": "ephemeral"}, messages[place]
    assert cast("list[Json]", rig.sent["tools"])[0]["cache_control"] == {"type": "ephemeral"}
    assert not any("cache_control" in one for one in dropped(answer))


@pytest.mark.parametrize("model", [*LACK, "openai-responses", "gemini"])
@pytest.mark.parametrize("surface", ["messages", "chat"])
async def test_marks_are_left_out_and_named_elsewhere(rig: Rig, surface: str, model: str) -> None:
    answer = await send(rig, surface, model)

    assert answer.status_code == 200, answer.text
    assert "cache_control" not in rig.vendor.requests[-1].body.decode()
    assert "messages[].content[].cache_control" in dropped(answer) or (
        "messages.content[].cache_control" in ",".join(dropped(answer))
    )
    assert any(one.endswith("tools[].cache_control") for one in dropped(answer))


@pytest.mark.parametrize("model", ["openai", "azure", "openai/gpt-5.5", "openai-responses"])
async def test_the_mark_of_a_document_does_not_reach_openai(rig: Rig, model: str) -> None:
    text = {"type": "text", "text": "read it"}
    answer = await rig.messages(model, messages=[{"role": "user", "content": [PDF, text]}])

    assert answer.status_code == 200, answer.text
    sent = json.dumps(rig.sent)
    assert "JVBERi0=" in sent
    assert "cache_control" not in sent


async def test_the_mark_of_a_document_reaches_openrouter(rig: Rig) -> None:
    await rig.messages("openrouter", messages=[{"role": "user", "content": [PDF]}])

    assert "cache_control" in json.dumps(rig.sent)


@pytest.mark.parametrize("surface", ["messages", "chat"])
async def test_openrouter_gets_the_marks_that_all_of_claudes_clouds_take(
    rig: Rig, surface: str
) -> None:
    scoped = {"cache_control": {"type": "ephemeral", "scope": "global"}}
    texts = [{"type": "text", "text": f"t{number}", **scoped} for number in range(6)]
    send_to = rig.messages if surface == "messages" else rig.chat
    answer = await send_to(
        "openrouter/anthropic/claude-opus-4.8", messages=[{"role": "user", "content": texts}]
    )

    assert answer.status_code == 200, answer.text
    content = cast("list[Json]", cast("list[Json]", rig.sent["messages"])[0]["content"])
    marks = [one.get("cache_control") for one in content]
    assert marks == [None, None, *[{"type": "ephemeral"}] * 4]
    assert {"cache_marks", "cache_members"} <= {one.rpartition(":")[2] for one in repairs(answer)}
