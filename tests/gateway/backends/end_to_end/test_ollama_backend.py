"""OpenAI's own client in front of the gateway, an Ollama server behind it."""

import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import cast

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.gateway.backends.vendors.alone import HELLO, WEATHER, Json, Setting, in_front_of, turn_of
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - name: box
    adapter: ollama
    base_url: {url}
    client_fields: {{allow: [options.num_ctx, keep_alive]}}
    timeouts: {{connect_s: 20, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
models:
  - name: chat
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: box, model: "llama3.2:3b"}}]
"""
LAST = {"done": True, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 5}


def line(**fields: object) -> Json:
    return {
        "model": "llama3.2:3b",
        "created_at": "2026-03-01T10:20:30.1Z",
        "done": False,
        **fields,
    }


def turn(content: str = "", **fields: object) -> Json:
    return line(message={"role": "assistant", "content": content, **fields})


def lines_for(request: Received) -> Sequence[Json]:
    """Answer with a call to requests with tools and no result, else with reasoning and text."""
    body = request.json
    if request.path == "/api/generate":
        return line(response="a, b"), line(response="):"), line(response="", **LAST)
    said = cast("list[Json]", body["messages"])
    if body.get("tools") and said[-1]["role"] != "tool":
        calls = [
            {"function": {"name": "weather", "arguments": {"at": place}}} for place in ("A", "B")
        ]
        return turn(tool_calls=calls[:1]), turn(tool_calls=calls[1:]), {**turn(), **LAST}
    return turn(thinking="Hm."), turn("Hel"), turn("lo 🌍"), {**turn(), **LAST}


async def ollama(request: Received, answer: Answer) -> None:
    body = request.json
    lines = lines_for(request)
    if not body["stream"]:
        await answer.json(whole(lines))
        return
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked"
    await answer.raw(head + b"\r\n\r\n")
    for one in lines:
        await answer.chunk(json.dumps(one).encode() + b"\n")
    await answer.raw(b"0\r\n\r\n")


def whole(lines: Sequence[Json]) -> Json:
    """As the server puts its own lines together."""
    if "response" in lines[0]:
        return {**lines[-1], "response": "".join(str(one["response"]) for one in lines)}
    messages = [cast("Json", one["message"]) for one in lines]
    calls = [call for one in messages for call in cast("list[Json]", one.get("tool_calls", []))]
    message: Json = {
        "role": "assistant",
        "content": "".join(str(one["content"]) for one in messages),
        "thinking": "".join(str(one.get("thinking", "")) for one in messages),
    }
    return {**lines[-1], "message": {**message, "tool_calls": calls} if calls else message}


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting, None]:
    async with in_front_of(ollama, CONFIG, tmp_path) as one:
        yield one


async def test_a_chat_is_answered_with_its_thoughts_and_its_usage(setting: Setting) -> None:
    answer = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], max_completion_tokens=9, reasoning_effort="low"
    )

    (choice,) = answer.choices
    assert choice.message.content == "Hello 🌍"
    assert getattr(choice.message, "reasoning_content", None) == "Hm."
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 5)
    assert setting.sent() == {
        "model": "llama3.2:3b",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": False,
        "truncate": False,
        "shift": False,
        "think": "low",
        "options": {"num_predict": 9},
    }


async def test_results_of_tools_name_what_was_called(setting: Setting) -> None:
    first = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], tools=[WEATHER], tool_choice="auto"
    )
    asked = first.choices[0].message
    calls = [one.id for one in asked.tool_calls or []]
    results: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": id, "content": "21"} for id in calls
    ]

    answer = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO, turn_of(asked), *results], tools=[WEATHER]
    )

    assert answer.choices[0].message.content == "Hello 🌍"
    back = cast("list[Json]", setting.sent()["messages"])
    assert [one.get("tool_name") for one in back] == [None, None, "weather", "weather"]
    assert [one.get("tool_call_id") for one in back[2:]] == calls
    sent_calls = cast("list[Json]", back[1]["tool_calls"])
    assert [cast("Json", one["function"])["arguments"] for one in sent_calls] == [
        {"at": "A"},
        {"at": "B"},
    ]


async def test_images_travel_with_the_message_or_not_at_all(setting: Setting) -> None:
    def seeing(url: str) -> ChatCompletionMessageParam:
        return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}

    await setting.client.chat.completions.create(
        model="chat", messages=[seeing("data:image/png;base64,iVBORw0KGgo=")]
    )
    with pytest.raises(openai.BadRequestError, match=r"messages\[0\]\.content\[0\]\.image_url"):
        await setting.client.chat.completions.create(
            model="chat", messages=[seeing("http://a.test/cat.png")]
        )

    (message,) = cast("list[Json]", setting.sent()["messages"])
    assert message["images"] == ["iVBORw0KGgo="]
    assert len(setting.server.requests) == 1


async def test_a_tool_that_must_be_called_is_the_models_choice(setting: Setting) -> None:
    answer = await setting.client.chat.completions.with_raw_response.create(
        model="chat", messages=[HELLO], tools=[WEATHER], tool_choice="required"
    )

    assert answer.headers["x-gateway-repairs"] == "tool_choice:free_choice"
    assert "tool_choice" not in setting.sent()


async def test_a_schema_and_ollamas_own_fields_reach_the_server(setting: Setting) -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"a": {"type": "integer"}}}

    await setting.client.chat.completions.create(
        model="chat",
        messages=[HELLO],
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        extra_body={"options": {"num_ctx": 8192}, "truncate": True, "keep_alive": "10m"},
    )

    sent = setting.sent()
    assert sent["format"] == schema
    assert sent["options"] == {"num_ctx": 8192, "temperature": 0.0}
    assert (sent["truncate"], sent["keep_alive"]) == (True, "10m")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_completion_goes_on_where_the_prompt_stops(setting: Setting, stream: bool) -> None:
    create = setting.client.completions.create
    if stream:
        chunks = [chunk async for chunk in await create(model="chat", prompt="def f(", stream=True)]
        text = "".join(one.text for chunk in chunks for one in chunk.choices)
    else:
        text = (await create(model="chat", prompt="def f(")).choices[0].text

    assert text == "a, b):"
    assert setting.sent()["raw"] is True
