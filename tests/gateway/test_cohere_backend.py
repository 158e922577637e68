"""OpenAI's own client in front of the gateway, Cohere behind it."""

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

Json = dict[str, object]

CONFIG = """
providers:
  - name: co
    adapter: cohere
    base_url: {url}
    api_key: co-secret-of-the-operator
    timeouts: {{connect_s: 1, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
models:
  - name: chat
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: co, model: command-a-03-2025}}]
  - name: asking
    backends: [{{provider: co, model: embed-v4.0/search_query}}]
"""
HELLO: ChatCompletionMessageParam = {"role": "user", "content": "hi"}
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}
USAGE = {
    "billed_units": {"input_tokens": 2, "output_tokens": 3},
    "tokens": {"input_tokens": 11.0, "output_tokens": 5.0},
    "cached_tokens": 4,
}
BROKEN = "break in the middle"
HOPELESS = "fail at once"
CITATION: Json = {"start": 0, "end": 2, "text": "It", "sources": [], "type": "TEXT_CONTENT"}


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """A vendor, the gateway in front of it, and a client of the gateway."""

    server: Provider
    gateway: Serving
    client: openai.AsyncOpenAI

    def sent(self) -> Json:
        """The last request that the vendor got."""
        return self.server.requests[-1].json


def message_for(body: Json) -> tuple[Json, str]:
    """A plan and two calls for whoever has tools and no result, else a thought and text."""
    said = cast("list[Json]", body["messages"])
    if body.get("tools") and said[-1]["role"] != "tool":
        calls = [
            {
                "id": f"weather_{place}",
                "type": "function",
                "function": {"name": "weather", "arguments": json.dumps({"at": place})},
            }
            for place in "ab"
        ]
        return {"role": "assistant", "tool_plan": "I will look.", "tool_calls": calls}, "TOOL_CALL"
    content = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "It is 21 °C."}]
    message: Json = {"role": "assistant", "content": content}
    if "documents" in body:
        message["citations"] = [CITATION]
    return message, "ERROR" if said[-1]["content"] == BROKEN else "COMPLETE"


def steps(message: Json, finish: str) -> Sequence[Json]:
    """The message in the events of a stream."""

    def step(kind: str, index: int, **fields: object) -> Json:
        return {"type": kind, "index": index, "delta": {"message": fields}}

    found: list[Json] = [{"type": "message-start", "id": "c1", "delta": {"message": {}}}]
    if "tool_plan" in message:
        found.append(step("tool-plan-delta", 0, tool_plan=message["tool_plan"]))
    for index, piece in enumerate(cast("list[Json]", message.get("content", []))):
        found.append(step("content-start", index, content=piece))
        found.append({"type": "content-end", "index": index})
    for index, call in enumerate(cast("list[Json]", message.get("tool_calls", []))):
        function = cast("Json", call["function"])
        begun = {**call, "function": {**function, "arguments": ""}}
        found.append(step("tool-call-start", index, tool_calls=begun))
        found.append(step("tool-call-delta", index, tool_calls={"function": function}))
        found.append({"type": "tool-call-end", "index": index})
    end = {"finish_reason": finish, "usage": USAGE}
    return [*found, {"type": "message-end", "delta": end}]


async def cohere(request: Received, answer: Answer) -> None:
    body = request.json
    if request.path == "/v2/embed":
        texts = cast("list[str]", body["texts"])
        assert len(texts) <= 96
        vectors = [[float(text), -1.0] for text in texts]
        meta = {"billed_units": {"input_tokens": 2 * len(texts)}}
        await answer.json({"id": "e", "embeddings": {"float": vectors}, "meta": meta})
        return
    if HOPELESS in request.body.decode():
        await answer.json({"message": "slow down"}, 429, {"retry-after": "3"})
        return
    message, finish = message_for(body)
    if not body["stream"]:
        await answer.json({"id": "c1", "finish_reason": finish, "message": message, "usage": USAGE})
        return
    await answer.begin_stream()
    for one in steps(message, finish):
        if finish == "ERROR" and one["type"] == "message-end":
            await asyncio.sleep(0.05)  # so that the text is on its way before the failure
        await answer.event(one)
    await answer.end_stream(finish=None)


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting, None]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(provider(cohere))
        gateway = await stack.enter_async_context(
            serving(CONFIG.format(url=server.origin), tmp_path)
        )
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        yield Setting(server=server, gateway=gateway, client=client)


async def test_a_chat_is_answered_with_its_thoughts_and_its_usage(setting: Setting) -> None:
    answer = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], max_completion_tokens=9, top_p=0.5, stop="END"
    )

    (choice,) = answer.choices
    assert choice.message.content == "It is 21 °C."
    assert getattr(choice.message, "reasoning_content", None) == "Hm."
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 5)
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 4
    assert setting.sent() == {
        "model": "command-a-03-2025",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": False,
        "max_tokens": 9,
        "p": 0.5,
        "stop_sequences": ["END"],
    }


async def test_a_stream_is_the_same_answer_in_pieces(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]

    deltas = [chunk.choices[0].delta for chunk in chunks[:-1]]
    assert "".join(delta.content or "" for delta in deltas) == "It is 21 °C."
    assert [one for one in (getattr(delta, "reasoning", None) for delta in deltas) if one] == [
        "Hm."
    ]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5


@pytest.mark.parametrize("stream", [False, True])
async def test_parallel_tools_are_called_and_their_results_go_back_with_the_plan(
    setting: Setting, stream: bool
) -> None:
    plan, calls = await called(setting, stream=stream)
    asked = {
        "role": "assistant",
        "reasoning_content": plan,
        "tool_calls": [
            {"id": id, "type": "function", "function": {"name": "weather", "arguments": arguments}}
            for id, arguments in calls
        ],
    }
    results: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": id, "content": "21"} for id, _ in calls
    ]

    answer = await setting.client.chat.completions.create(
        model="chat",
        messages=[HELLO, cast("ChatCompletionMessageParam", asked), *results],
        tools=[WEATHER],
    )

    assert answer.choices[0].message.content == "It is 21 °C."
    assert calls == [("weather_a", '{"at": "a"}'), ("weather_b", '{"at": "b"}')]
    back = cast("list[Json]", setting.sent()["messages"])
    assert back[1]["tool_plan"] == plan == "I will look."
    assert [one["id"] for one in cast("list[Json]", back[1]["tool_calls"])] == [
        "weather_a",
        "weather_b",
    ]
    assert [one["tool_call_id"] for one in back[2:]] == ["weather_a", "weather_b"]


async def called(setting: Setting, *, stream: bool) -> tuple[str, list[tuple[str, str]]]:
    """The plan, and the ids and arguments of the calls that the model makes."""
    create = setting.client.chat.completions.create
    if not stream:
        answer = await create(
            model="chat", messages=[HELLO], tools=[WEATHER], tool_choice="required"
        )
        assert setting.sent()["tool_choice"] == "REQUIRED"
        message = answer.choices[0].message
        found = [one for one in message.tool_calls or [] if one.type == "function"]
        plan = str(getattr(message, "reasoning_content", ""))
        return plan, [(one.id, one.function.arguments) for one in found]
    pieces: dict[int, tuple[str, str]] = {}
    plan = ""
    async for chunk in await create(model="chat", messages=[HELLO], tools=[WEATHER], stream=True):
        delta = chunk.choices[0].delta
        plan += getattr(delta, "reasoning_content", None) or ""
        for piece in delta.tool_calls or []:
            id, arguments = pieces.get(piece.index, ("", ""))
            more = (piece.function.arguments if piece.function else "") or ""
            pieces[piece.index] = (piece.id or id, arguments + more)
    return plan, [pieces[index] for index in sorted(pieces)]


async def test_a_failure_in_the_middle_is_an_error_and_no_end(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="chat", messages=[{"role": "user", "content": BROKEN}], stream=True
    )
    await anext(stream)

    with pytest.raises(openai.APIError, match="co: the answer ended with 'ERROR'"):
        [chunk async for chunk in stream]


async def test_a_whole_answer_that_failed_is_asked_for_again_and_then_an_error(
    setting: Setting,
) -> None:
    with pytest.raises(openai.APIStatusError, match="ended with 'ERROR'") as caught:
        await setting.client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": BROKEN}]
        )

    assert caught.value.status_code == 502
    assert len(setting.server.requests) > 1


async def test_a_vendor_that_is_busy_says_when_to_come_back(setting: Setting) -> None:
    with pytest.raises(openai.RateLimitError, match="slow down") as caught:
        await setting.client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": HOPELESS}]
        )

    assert caught.value.response.headers["retry-after"] == "3"


async def test_documents_are_cited(setting: Setting) -> None:
    answer = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], extra_body={"documents": ["It is 21 °C."]}
    )

    assert getattr(answer.choices[0].message, "citations", None) == [CITATION]
    assert setting.sent()["documents"] == ["It is 21 °C."]


@pytest.mark.parametrize("field", ["n", "presence_penalty"])
async def test_what_cohere_cannot_do_is_refused_by_name(setting: Setting, field: str) -> None:
    value = {"n": 2, "presence_penalty": -1}[field]

    with pytest.raises(openai.BadRequestError, match=field) as caught:
        await setting.client.chat.completions.create(
            model="chat", messages=[HELLO], extra_body={field: value}
        )

    assert caught.value.param == field
    assert not setting.server.requests


async def test_texts_become_vectors_for_what_they_are_meant(setting: Setting) -> None:
    answer = await setting.client.embeddings.create(model="asking", input=["1", "2"])

    assert [one.embedding for one in answer.data] == [[1.0, -1.0], [2.0, -1.0]]
    assert answer.usage.prompt_tokens == 4
    assert setting.sent()["input_type"] == "search_query"
    assert setting.sent()["model"] == "embed-v4.0"


async def test_more_texts_than_one_request_may_have_are_several_and_one_answer(
    setting: Setting,
) -> None:
    texts = [str(one) for one in range(200)]

    answer = await setting.client.embeddings.create(model="asking", input=texts)

    sizes = [len(cast("list[str]", one.json["texts"])) for one in setting.server.requests]
    assert sizes == [96, 96, 8]
    assert [one.embedding[0] for one in answer.data] == [float(text) for text in texts]
    assert [one.index for one in answer.data] == list(range(200))
    assert answer.usage.prompt_tokens == 400
