"""What a vendor has no word for is left out and named, or done by the gateway."""

import json
from collections.abc import AsyncGenerator

import pytest

from tests.adapters.repairs.one_of_each import (
    Json,
    Rig,
    dropped,
    one_of_each,
    repairs,
)
from tests.stand_ins.provider import Answer, Received, chat_body, delta_body

pytestmark = pytest.mark.anyio

WITHOUT_SWITCH = (
    "gemini",
    "databricks",
    "mindie",
    "tgi",
    "cohere",
    "ollama",
    "together",
    "lm-studio",
)
NAMELESS = ("gemini", "cohere", "ollama", "mistral", "openai-responses", "vllm-responses")
SCHEMA: Json = {"type": "object", "properties": {"q": {"type": "string"}}}
CHAT_TOOL: Json = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
PNG = "data:image/png;base64,iVBORw0KGgo="


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("switches")
    names = dict.fromkeys((*WITHOUT_SWITCH, *NAMELESS, "novita", "ollama-responses"))
    async with one_of_each(folder, *names) as one:
        yield one


@pytest.mark.parametrize("model", WITHOUT_SWITCH)
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
@pytest.mark.parametrize("forced", [True, False])
async def test_one_call_at_a_time_is_no_reason_to_refuse(
    rig: Rig, surface: str, model: str, forced: bool
) -> None:
    forced = forced and model != "ollama"  # which cannot be told what to call
    if surface == "chat":
        chosen: object = {"type": "function", "function": {"name": "f"}} if forced else "auto"
        answer = await rig.chat(
            model, tools=[CHAT_TOOL], tool_choice=chosen, parallel_tool_calls=False
        )
    elif surface == "messages":
        choice: Json = {"type": "tool", "name": "f"} if forced else {"type": "auto"}
        answer = await rig.messages(
            model,
            tools=[{"name": "f", "input_schema": SCHEMA}],
            tool_choice={**choice, "disable_parallel_tool_use": True},
        )
    else:
        function = {"type": "function", "name": "f", "parameters": SCHEMA}
        named: object = {"type": "function", "name": "f"} if forced else "auto"
        answer = await rig.responses(
            model, tools=[function], tool_choice=named, parallel_tool_calls=False
        )

    assert answer.status_code == 200, answer.text
    assert "parallel" not in rig.vendor.requests[-1].body.decode()
    assert any(one.endswith(":one_call") for one in repairs(answer))


async def calls_twice(request: Received, answer: Answer) -> None:
    """Call the function twice, as each of these vendors answers."""
    if ":" in request.path:
        parts = [{"functionCall": {"name": "f", "args": {"q": one}}} for one in ("a", "b")]
        content = {"role": "model", "parts": parts}
        body = {"candidates": [{"content": content, "finishReason": "STOP"}]}
        if "stream" not in request.path:
            await answer.json(body)
            return
        await answer.begin_stream()
        await answer.event(body)
        await answer.raw(b"0\r\n\r\n")
        return
    calls = [
        {
            "id": f"call0000{at}",
            "type": "function",
            "function": {"name": "f", "arguments": json.dumps({"q": one})},
        }
        for at, one in enumerate("ab")
    ]
    if request.json.get("stream"):
        await answer.begin_stream()
        for at, call in enumerate(calls):
            await answer.event(delta_body({"tool_calls": [{"index": at, **call}]}))
        await answer.end_stream("tool_calls")
        return
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    await answer.json({**chat_body("", "tool_calls"), "choices": [choice]})


@pytest.mark.parametrize("model", ["gemini", "databricks", "together"])
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
@pytest.mark.parametrize("stream", [False, True])
async def test_of_two_calls_the_client_gets_the_first(
    rig: Rig, stream: bool, surface: str, model: str
) -> None:
    usual, rig.vendor.behaviour = rig.vendor.behaviour, calls_twice
    try:
        if surface == "chat":
            answer = await rig.chat(
                model, tools=[CHAT_TOOL], parallel_tool_calls=False, stream=stream
            )
        elif surface == "messages":
            tools = [{"name": "f", "input_schema": SCHEMA}]
            choice = {"type": "auto", "disable_parallel_tool_use": True}
            answer = await rig.messages(model, tools=tools, tool_choice=choice, stream=stream)
        else:
            functions = [{"type": "function", "name": "f", "parameters": SCHEMA}]
            answer = await rig.responses(
                model, tools=functions, parallel_tool_calls=False, stream=stream
            )
    finally:
        rig.vendor.behaviour = usual

    assert answer.status_code == 200, answer.text
    told = answer.text.replace("\\", "").replace(" ", "")
    assert '"q":"a"' in told
    assert '"q":"b"' not in told


@pytest.mark.parametrize("model", ["ollama", "novita", "ollama-responses"])
@pytest.mark.parametrize("surface", ["chat", "messages", "responses"])
async def test_a_server_without_a_choice_gets_no_tools_if_none_may_be_called(
    rig: Rig, surface: str, model: str
) -> None:
    if surface == "chat":
        answer = await rig.chat(model, tools=[CHAT_TOOL], tool_choice="none")
    elif surface == "messages":
        tools = [{"name": "f", "input_schema": SCHEMA}]
        answer = await rig.messages(model, tools=tools, tool_choice={"type": "none"})
    else:
        function = {"type": "function", "name": "f", "parameters": SCHEMA}
        answer = await rig.responses(model, tools=[function], tool_choice="none")

    assert answer.status_code == 200, answer.text
    assert rig.sent.keys().isdisjoint({"tools", "tool_choice"})
    assert "tools:withheld_tools" in repairs(answer)


@pytest.mark.parametrize("model", NAMELESS)
async def test_a_users_name_is_left_out_and_named(rig: Rig, model: str) -> None:
    named = {"role": "user", "content": "hi", "name": "ann"}
    answer = await rig.chat(model, messages=[{"role": "system", "content": "s"}, named])

    assert answer.status_code == 200, answer.text
    assert "ann" not in rig.vendor.requests[-1].body.decode()
    assert "messages[].name" in dropped(answer)


@pytest.mark.parametrize("model", ["gemini", "mindie", "ollama"])
async def test_the_detail_of_an_image_is_left_out_and_named(rig: Rig, model: str) -> None:
    image = {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}
    answer = await rig.chat(model, messages=[{"role": "user", "content": [image]}])

    assert answer.status_code == 200, answer.text
    assert "high" not in rig.vendor.requests[-1].body.decode()
    assert "messages[].content[].image_url.detail" in dropped(answer)
