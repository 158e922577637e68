"""OpenAI's own client in front of the gateway, Anthropic's Messages API behind it."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.gateway.backends.vendors.alone import HELLO, WEATHER, Json, Setting, in_front_of
from tests.stand_ins.anthropic_server import (
    ANSWER,
    BUSY,
    KEY,
    LIMIT,
    LONG,
    PLACES,
    REFUSE,
    THOUGHT,
    messages_api,
    proof,
)

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - name: claude
    adapter: anthropic
    base_url: {url}
    api_key: {key}
    timeouts: {{connect_s: 20, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
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


def user(text: str) -> ChatCompletionMessageParam:
    return {"role": "user", "content": text}


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting, None]:
    async with in_front_of(messages_api, CONFIG.replace("{key}", KEY), tmp_path) as one:
        yield one


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


async def test_a_tool_loop_with_thinking_goes_on_for_two_turns(setting: Setting) -> None:
    create = setting.client.chat.completions.create
    asked = await create(model="chat", messages=[HELLO], tools=[WEATHER], reasoning_effort="low")
    turn = asked.choices[0].message.model_dump(exclude_none=True)
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


@pytest.mark.parametrize(
    ("word", "status", "said"),
    [(BUSY, 503, "claude: Overloaded"), (LIMIT, 429, "claude: This request would exceed")],
)
async def test_an_overloaded_server_is_retried_and_then_abandoned(
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


async def test_a_request_without_a_bound_gets_the_models_ceiling(setting: Setting) -> None:
    answer = await setting.client.chat.completions.with_raw_response.create(
        model="unbounded", messages=[HELLO]
    )

    bound = setting.server.requests[0].json["max_tokens"]
    assert answer.headers["x-gateway-defaulted-params"] == f"max_tokens={bound}"


@pytest.mark.parametrize(("field", "value"), [("seed", 1), ("n", 2), ("logprobs", True)])
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
    closed = {**schema, "additionalProperties": False}
    assert sent["output_config"] == {"format": {"type": "json_schema", "schema": closed}}
    assert (sent["temperature"], sent["stop_sequences"]) == (0, ["END"])
    assert (sent["service_tier"], sent["thinking"]) == ("standard_only", {"type": "disabled"})
