"""OpenAI's own client in front of the gateway, Anthropic's Messages API behind it."""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import openai
import pytest
from msgspec import Struct
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.anthropic_server import (
    ANSWER,
    BREAK,
    BUSY,
    CUT,
    KEY,
    LIMIT,
    LONG,
    PLACES,
    REFUSE,
    THOUGHT,
    anthropic_server,
    proof,
)
from tests.gateway.serving import Serving, serving
from tests.provider import Provider

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - name: claude
    adapter: anthropic
    base_url: {url}
    api_key: {key}
    timeouts: {{connect_s: 1, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
models:
  - name: chat
    defaults: {{max_tokens: 2000}}
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: claude, model: claude-opus-4-6}}]
  - name: unbounded
    backends: [{{provider: claude, model: claude-opus-4-6}}]
"""
TEXT, THINKING = "".join(ANSWER), "".join(THOUGHT)
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
    },
}

Json = dict[str, object]


class Setting(Struct, frozen=True, kw_only=True, eq=False):
    """A server, the gateway in front of it, and a client of the gateway."""

    server: Provider
    gateway: Serving
    client: openai.AsyncOpenAI

    def sent(self) -> Json:
        """The last request that the server got."""
        return self.server.requests[-1].json


def user(text: str) -> ChatCompletionMessageParam:
    return {"role": "user", "content": text}


HELLO = user("hi")


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting, None]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(anthropic_server())
        config = CONFIG.format(url=server.origin, key=KEY)
        gateway = await stack.enter_async_context(serving(config, tmp_path))
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
        await stack.enter_async_context(client)
        yield Setting(server=server, gateway=gateway, client=client)


async def test_a_chat_is_answered_with_its_thoughts_and_its_usage(setting: Setting) -> None:
    answer = await setting.client.chat.completions.create(
        model="chat",
        messages=[{"role": "system", "content": "Be kind."}, HELLO],
        max_completion_tokens=900,
        reasoning_effort="low",
        user="u-1",
    )

    (choice,) = answer.choices
    assert choice.message.content == TEXT
    assert getattr(choice.message, "reasoning_content", None) == THINKING
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (111, 5)
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 100
    assert setting.sent() == {
        "model": "claude-opus-4-6",
        "max_tokens": 900,
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "metadata": {"user_id": "u-1"},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "low"},
    }


async def test_a_stream_is_the_same_answer_in_pieces(setting: Setting) -> None:
    stream = await setting.client.chat.completions.create(
        model="chat",
        messages=[HELLO],
        stream=True,
        stream_options={"include_usage": True},
        reasoning_effort="high",
    )
    chunks = [chunk async for chunk in stream]

    deltas = [chunk.choices[0].delta for chunk in chunks[:-1]]
    assert "".join(delta.content or "" for delta in deltas) == TEXT
    assert "".join(getattr(delta, "reasoning", None) or "" for delta in deltas) == THINKING
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_loop_with_thinking_goes_on_for_two_turns(
    setting: Setting, stream: bool
) -> None:
    create = setting.client.chat.completions.create
    turn = await asked(setting, stream=stream)
    calls = cast("list[Json]", turn["tool_calls"])

    results = [{"role": "tool", "tool_call_id": one["id"], "content": "19"} for one in calls]
    conversation = cast("list[ChatCompletionMessageParam]", [HELLO, turn, *results, user("And?")])
    answer = await create(
        model="chat", messages=conversation, tools=[WEATHER], reasoning_effort="low"
    )

    functions = [cast("Json", one["function"]) for one in calls]
    assert [json.loads(str(one["arguments"])) for one in functions] == [
        {"at": place} for place in PLACES
    ]
    assert answer.choices[0].message.content == TEXT
    _, said, back = cast("list[Json]", setting.sent()["messages"])
    thought, text, *made = cast("list[Json]", said["content"])
    assert thought == {"type": "thinking", "thinking": THINKING, "signature": proof(THINKING)}
    assert text == {"type": "text", "text": "One moment."}
    assert [one["input"] for one in made] == [{"at": place} for place in PLACES]
    kinds = [one["type"] for one in cast("list[Json]", back["content"])]
    assert kinds == ["tool_result", "tool_result", "text"]


async def asked(setting: Setting, *, stream: bool) -> Json:
    """The assistant's message, as a client keeps it that knows no vendor."""
    create = setting.client.chat.completions.create
    if not stream:
        answer = await create(
            model="chat", messages=[HELLO], tools=[WEATHER], reasoning_effort="low"
        )
        assert answer.choices[0].finish_reason == "tool_calls"
        return cast("Json", answer.choices[0].message.model_dump(exclude_none=True))
    text, details, pieces = "", list[object](), dict[int, Json]()
    async for chunk in await create(
        model="chat", messages=[HELLO], tools=[WEATHER], reasoning_effort="low", stream=True
    ):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        details += getattr(delta, "reasoning_details", None) or []
        for piece in delta.tool_calls or []:
            function = piece.function
            known = pieces.setdefault(
                piece.index, {"id": piece.id, "type": "function", "name": "", "arguments": ""}
            )
            known["name"] = f"{known['name']}{(function and function.name) or ''}"
            known["arguments"] = f"{known['arguments']}{(function and function.arguments) or ''}"
    calls = [
        {"id": one["id"], "type": "function", "function": {k: one[k] for k in KEYS}}
        for one in pieces.values()
    ]
    return {
        "role": "assistant",
        "content": text,
        "reasoning_details": details,
        "tool_calls": calls,
    }


KEYS = ("name", "arguments")


@pytest.mark.parametrize("word", [BREAK, CUT])
async def test_a_failure_in_the_middle_is_an_error_and_no_end(setting: Setting, word: str) -> None:
    stream = await setting.client.chat.completions.create(
        model="chat", messages=[user(word)], stream=True
    )
    reasons: list[str | None] = []

    async def drain() -> None:
        async for chunk in stream:
            reasons.extend(choice.finish_reason for choice in chunk.choices)

    with pytest.raises(openai.APIError, match="claude: "):
        await drain()

    assert set(reasons) == {None}


@pytest.mark.parametrize(
    ("word", "status", "said"),
    [(BUSY, 503, "claude: Overloaded"), (LIMIT, 429, "claude: This request would exceed")],
)
async def test_a_server_that_has_no_room_is_asked_again_and_then_given_up(
    setting: Setting, word: str, status: int, said: str
) -> None:
    with pytest.raises(openai.APIStatusError, match=said) as caught:
        await setting.client.chat.completions.create(model="chat", messages=[user(word)])

    assert caught.value.status_code == status
    assert len(setting.server.requests) > 1


async def test_a_prompt_that_is_too_long_has_openais_code(setting: Setting) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await setting.client.chat.completions.create(model="chat", messages=[user(LONG)])

    assert caught.value.code == "context_length_exceeded"
    assert len(setting.server.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_says_why(setting: Setting, stream: bool) -> None:
    create = setting.client.chat.completions.create
    if stream:
        chunks = [
            chunk
            async for chunk in await create(model="chat", messages=[user(REFUSE)], stream=True)
        ]
        refusal = "".join(one.delta.refusal or "" for chunk in chunks for one in chunk.choices)
        reason = chunks[-1].choices[0].finish_reason
    else:
        (choice,) = (await create(model="chat", messages=[user(REFUSE)])).choices
        refusal, reason = choice.message.refusal, choice.finish_reason

    assert refusal == "No malware."
    assert reason == "content_filter"


async def test_a_request_without_a_bound_is_refused_by_name(setting: Setting) -> None:
    with pytest.raises(openai.BadRequestError, match="max_tokens") as caught:
        await setting.client.chat.completions.create(model="unbounded", messages=[HELLO])

    assert caught.value.param == "max_tokens"
    assert not setting.server.requests


@pytest.mark.parametrize(
    ("field", "value"), [("seed", 1), ("n", 2), ("temperature", 1.5), ("logprobs", True)]
)
async def test_what_anthropic_cannot_do_is_refused_by_name(
    setting: Setting, field: str, value: object
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        await setting.client.chat.completions.create(
            model="chat", messages=[HELLO], extra_body={field: value}
        )

    assert caught.value.param == field
    assert not setting.server.requests


async def test_schemas_documents_marks_and_anthropics_own_fields_reach_the_server(
    setting: Setting,
) -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    marked = {"type": "text", "text": "What?", "cache_control": {"type": "ephemeral"}}
    pdf = {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a.pdf"}
    content = [marked, {"type": "file", "file": pdf}]

    await setting.client.chat.completions.create(
        model="chat",
        messages=cast("list[ChatCompletionMessageParam]", [{"role": "user", "content": content}]),
        temperature=0,
        stop="END",
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        extra_body={"service_tier": "standard_only", "thinking": {"type": "disabled"}},
    )

    sent = setting.sent()
    (turn,) = cast("list[Json]", sent["messages"])
    text, document = cast("list[Json]", turn["content"])
    assert text == marked
    assert document["title"] == "a.pdf"
    assert sent["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
    assert (sent["temperature"], sent["stop_sequences"]) == (0, ["END"])
    assert (sent["service_tier"], sent["thinking"]) == ("standard_only", {"type": "disabled"})
