"""OpenAI's own client in front of the gateway, an Ollama server behind it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import openai
import pytest
from msgspec import Struct
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.gateway.serving import Serving, serving
from tests.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - name: box
    adapter: ollama
    base_url: {url}
    timeouts: {{connect_s: 1, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
models:
  - name: chat
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: box, model: "llama3.2:3b"}}]
"""
HELLO: ChatCompletionMessageParam = {"role": "user", "content": "hi"}
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}
LAST = {"done": True, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 5}
BROKEN = "break in the middle"
FAILING = "fail at once"

Json = dict[str, object]


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """A server, the gateway in front of it, and a client of the gateway."""

    server: Provider
    gateway: Serving
    client: openai.AsyncOpenAI

    def sent(self) -> Json:
        """The last request that the server got."""
        return self.server.requests[-1].json


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
    """What the server says: a call for whoever has tools and no result, else a thought and text."""
    body = request.json
    if request.path == "/api/generate":
        return line(response="a, b"), line(response="):"), line(response="", **LAST)
    said = cast("list[Json]", body["messages"])
    if said[-1]["content"] == BROKEN:
        return turn("It"), {"error": "the runner has stopped"}
    if body.get("tools") and said[-1]["role"] != "tool":
        calls = [
            {"function": {"name": "weather", "arguments": {"at": place}}} for place in ("A", "B")
        ]
        return turn(tool_calls=calls[:1]), turn(tool_calls=calls[1:]), {**turn(), **LAST}
    return turn(thinking="Hm."), turn("Hel"), turn("lo 🌍"), {**turn(), **LAST}


async def ollama(request: Received, answer: Answer) -> None:
    body = request.json
    if request.path == "/api/embed":
        vectors = [[0.5, -1.0] for _ in cast("list[str]", body["input"])]
        await answer.json({"model": "e", "embeddings": vectors, "prompt_eval_count": 4})
        return
    if FAILING in request.body.decode():
        await answer.json({"error": "server busy"}, 503, {"retry-after": "0"})
        return
    lines = lines_for(request)
    if not body["stream"]:
        await answer.json(whole(lines))
        return
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked"
    await answer.raw(head + b"\r\n\r\n")
    for one in lines:
        if "error" in one:
            await asyncio.sleep(0.05)  # so that the text is on its way before the failure
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
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(ollama))
        gateway = await stack.enter_async_context(
            serving(CONFIG.format(url=server.origin), tmp_path)
        )
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        yield Setting(server=server, gateway=gateway, client=client)


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


async def test_a_stream_is_the_same_answer_in_pieces(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]

    deltas = [chunk.choices[0].delta for chunk in chunks[:-1]]
    assert "".join(delta.content or "" for delta in deltas) == "Hello 🌍"
    assert [one for one in (getattr(delta, "reasoning", None) for delta in deltas) if one] == [
        "Hm."
    ]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5


@pytest.mark.parametrize("stream", [False, True])
async def test_parallel_tools_are_called_and_their_results_go_back(
    setting: Setting, stream: bool
) -> None:
    calls = await called(setting, stream=stream)
    assert [json.loads(arguments) for _, arguments in calls] == [{"at": "A"}, {"at": "B"}]
    assert len({id for id, _ in calls}) == 2

    asked: ChatCompletionMessageParam = {
        "role": "assistant",
        "tool_calls": [
            {
                "id": id,
                "type": "function",
                "function": {"name": "weather", "arguments": arguments},
            }
            for id, arguments in calls
        ],
    }
    results: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": id, "content": "21"} for id, _ in calls
    ]
    answer = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO, asked, *results], tools=[WEATHER]
    )

    assert answer.choices[0].message.content == "Hello 🌍"
    back = cast("list[Json]", setting.sent()["messages"])
    assert [one.get("tool_name") for one in back] == [None, None, "weather", "weather"]
    assert [one.get("tool_call_id") for one in back[2:]] == [id for id, _ in calls]
    sent_calls = cast("list[Json]", back[1]["tool_calls"])
    assert [cast("Json", one["function"])["arguments"] for one in sent_calls] == [
        {"at": "A"},
        {"at": "B"},
    ]


async def called(setting: Setting, *, stream: bool) -> list[tuple[str, str]]:
    """The ids and arguments of the calls that the model makes."""
    create = setting.client.chat.completions.create
    if not stream:
        answer = await create(model="chat", messages=[HELLO], tools=[WEATHER], tool_choice="auto")
        assert answer.choices[0].finish_reason == "tool_calls"
        found = answer.choices[0].message.tool_calls or []
        return [(one.id, one.function.arguments) for one in found if one.type == "function"]
    pieces: dict[int, tuple[str, str]] = {}
    async for chunk in await create(
        model="chat", messages=[HELLO], tools=[WEATHER], tool_choice="auto", stream=True
    ):
        for piece in chunk.choices[0].delta.tool_calls or []:
            id, arguments = pieces.get(piece.index, ("", ""))
            more = (piece.function.arguments if piece.function else "") or ""
            pieces[piece.index] = (piece.id or id, arguments + more)
    return [pieces[index] for index in sorted(pieces)]


async def test_a_failure_in_the_middle_is_an_error_and_no_end(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="chat", messages=[{"role": "user", "content": BROKEN}], stream=True
    )
    first = await anext(stream)

    with pytest.raises(openai.APIError, match="box: the runner has stopped"):
        [chunk async for chunk in stream]

    assert first.choices[0].delta.content in ("", "It")


async def test_a_server_that_is_busy_is_asked_again_and_then_given_up(setting: Setting) -> None:
    with pytest.raises(openai.APIStatusError, match="box: server busy") as caught:
        await setting.client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": FAILING}]
        )

    assert caught.value.status_code == 503
    assert len(setting.server.requests) > 1


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


async def test_a_tool_that_must_be_called_is_refused_by_name(setting: Setting) -> None:
    with pytest.raises(openai.BadRequestError, match="tool_choice") as caught:
        await setting.client.chat.completions.create(
            model="chat", messages=[HELLO], tools=[WEATHER], tool_choice="required"
        )

    assert caught.value.param == "tool_choice"
    assert not setting.server.requests


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


async def test_texts_become_vectors(setting: Setting) -> None:
    answer = await setting.client.embeddings.create(model="chat", input=["one", "two"])

    assert [one.embedding for one in answer.data] == [[0.5, -1.0], [0.5, -1.0]]
    assert answer.usage.prompt_tokens == 4
    assert setting.sent()["input"] == ["one", "two"]
