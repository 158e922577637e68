"""OpenAI's own client in front of the gateway; vendors that nearly speak as OpenAI behind it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import openai
import pytest
from msgspec import Struct
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.gateway.serving import serving
from tests.provider import USAGE, Answer, Provider, Received, delta_body, provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - name: box
    adapter: {adapter}
    base_url: {url}
    api_key: secret-0123456789
    timeouts: {{connect_s: 1, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
models:
  - name: chat
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: box, model: m1}}]
"""
HELLO: ChatCompletionMessageParam = {"role": "user", "content": "hi"}
BREAK: ChatCompletionMessageParam = {"role": "user", "content": "break in the middle"}
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}

Json = dict[str, object]


class Variant(Struct, frozen=True, kw_only=True):
    """path: added to the server's origin. target: where a chat arrives. key: the header with it."""

    path: str
    target: str
    key: str = "authorization"


VARIANTS = {
    "azure": Variant(
        path="/openai?api-version=2024-10-21",
        target="/openai/deployments/m1/chat/completions?api-version=2024-10-21",
        key="api-key",
    ),
    "mistral": Variant(path="/v1", target="/v1/chat/completions"),
    "sglang": Variant(path="/v1", target="/v1/chat/completions"),
    "tgi": Variant(path="", target="/v1/chat/completions"),
    "vllm": Variant(path="/v1", target="/v1/chat/completions"),
}


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    variant: Variant
    server: Provider
    client: openai.AsyncOpenAI


@pytest.fixture(params=VARIANTS)
async def setting(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Setting, None]:
    adapter = str(request.param)
    variant = VARIANTS[adapter]
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(vendor))
        config = CONFIG.format(adapter=adapter, url=server.origin + variant.path)
        gateway = await stack.enter_async_context(serving(config, tmp_path))
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        yield Setting(variant=variant, server=server, client=client)


async def vendor(request: Received, answer: Answer) -> None:
    """Calls two tools where there are some and no result yet; else says hello."""
    body = request.json
    said = cast("list[Json]", body["messages"])
    calls = bool(body.get("tools")) and said[-1]["role"] != "tool"
    pieces = (call_piece(0, "A"), call_piece(1, "B")) if calls else text_pieces()
    finish = "tool_calls" if calls else "stop"
    if not body.get("stream"):
        await answer.json(whole(calls=calls, finish=finish))
        return
    await answer.begin_stream()
    for piece in pieces:
        await answer.event(delta_body(piece))
    if said[-1]["content"] == BREAK.get("content"):
        await asyncio.sleep(0.05)  # so that the text is on its way before the failure
        await answer.event({"error": {"message": "the card is on fire", "code": 500}})
        await answer.raw(b"0\r\n\r\n")
        return
    await answer.end_stream(finish)


def text_pieces() -> tuple[Json, ...]:
    return {"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo 🌍"}


def call_piece(index: int, place: str) -> Json:
    function = {"name": "weather", "arguments": json.dumps({"at": place})}
    call = {"index": index, "id": f"abcdefgh{index}", "type": "function", "function": function}
    return {"tool_calls": [call]}


def whole(*, calls: bool, finish: str) -> Json:
    message: Json = {"role": "assistant", "content": None if calls else "Hello 🌍"}
    if calls:
        made = [cast("list[Json]", call_piece(i, at)["tool_calls"])[0] for i, at in enumerate("AB")]
        message["tool_calls"] = made
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m1-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": USAGE,
    }


async def test_a_chat_arrives_where_the_vendor_wants_it(setting: Setting) -> None:
    answer = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], temperature=0.5
    )

    assert answer.choices[0].message.content == "Hello 🌍"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 10
    (received,) = setting.server.requests
    assert received.path == setting.variant.target
    assert "secret-0123456789" in received.headers[setting.variant.key]
    assert received.json == {
        "model": "m1",
        "messages": [HELLO],
        "temperature": 0.5,
    }


async def test_a_stream_ends_with_its_usage_where_that_was_asked_for(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]

    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == "Hello 🌍"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 3


async def test_two_tools_are_called_and_their_results_go_back(setting: Setting) -> None:
    pieces: dict[int, tuple[str, str]] = {}
    async for chunk in await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], tools=[WEATHER], stream=True
    ):
        for piece in chunk.choices[0].delta.tool_calls or [] if chunk.choices else []:
            id, arguments = pieces.get(piece.index, ("", ""))
            more = (piece.function.arguments if piece.function else "") or ""
            pieces[piece.index] = (piece.id or id, arguments + more)

    asked: ChatCompletionMessageParam = {
        "role": "assistant",
        "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "weather", "arguments": arguments}}
            for id, arguments in pieces.values()
        ],
    }
    results: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": id, "content": "21"} for id, _ in pieces.values()
    ]
    answer = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO, asked, *results], tools=[WEATHER]
    )

    assert [json.loads(arguments) for _, arguments in pieces.values()] == [{"at": "A"}, {"at": "B"}]
    assert answer.choices[0].message.content == "Hello 🌍"
    back = cast("list[Json]", setting.server.requests[-1].json["messages"])
    assert [one.get("tool_call_id") for one in back[2:]] == [id for id, _ in pieces.values()]


async def test_a_failure_in_the_middle_is_an_error_and_no_end(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="chat", messages=[BREAK], stream=True
    )

    with pytest.raises(openai.APIError, match="box: the card is on fire"):
        [chunk async for chunk in stream]
