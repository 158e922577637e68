"""OpenAI's own client in front of the gateway, a fake of Google's API behind it."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import openai
import pytest
from openai import BaseModel
from openai.types.chat import ChatCompletionMessageParam

from tests.gateway.backends.vendors.alone import HELLO, WEATHER, Json, Setting, in_front_of
from tests.stand_ins.gemini_server import (
    BLOCKED,
    FAILING,
    MALFORMED,
    MODEL_VERSION,
    SIGNATURE,
    TEXT_SIGNATURE,
    contents,
    gemini,
    parts_of,
)

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - name: studio
    adapter: gemini
    base_url: {url}/v1beta
    api_key: a-secret-of-the-operator
    timeouts: {{connect_s: 20, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
  - name: vertex
    adapter: gemini
    base_url: {url}/v1/projects/p/locations/l/publishers/google
    api_key: a-token
models:
  - name: chat
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: studio, model: gemini-3-flash-preview}}]
  - name: cloud
    backends: [{{provider: vertex, model: gemini-2.5-flash}}]
"""


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting, None]:
    async with in_front_of(gemini, CONFIG, tmp_path) as one:
        yield one


async def test_a_chat_is_answered_with_its_thoughts_and_its_usage(setting: Setting) -> None:
    answer = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], max_completion_tokens=9, reasoning_effort="low"
    )

    (choice,) = answer.choices
    assert choice.message.content == "Hello 🌍"
    assert getattr(choice.message, "reasoning_content", None) == "Hm."
    assert choice.finish_reason == "stop"
    usage = answer.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (11, 12, 23)
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 7
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 4
    assert setting.sent() == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {
            "maxOutputTokens": 9,
            "thinkingConfig": {"thinkingLevel": "LOW", "includeThoughts": True},
        },
    }


async def test_calls_go_back_with_their_signatures_and_results(setting: Setting) -> None:
    first = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], tools=[WEATHER], tool_choice="required"
    )
    made = first.choices[0].message.tool_calls or []
    asked = [one.model_dump(exclude_none=True) for one in made]
    mode = cast("Json", setting.sent()["toolConfig"])["functionCallingConfig"]
    results: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": str(one["id"]), "content": text}
        for one, text in zip(asked, ('{"degrees": 21}', "rain"), strict=True)
    ]
    turn = cast("ChatCompletionMessageParam", {"role": "assistant", "tool_calls": asked})

    answer = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO, turn, *results], tools=[WEATHER]
    )

    assert mode == {"mode": "ANY"}
    assert answer.choices[0].message.content == "Hello 🌍"
    _, back, responses = contents(setting.sent())
    ids = [str(one["id"]) for one in asked]
    assert len(set(ids)) == 2
    assert parts_of(back) == [
        {
            "functionCall": {"id": ids[0], "name": "weather", "args": {"at": "A"}},
            "thoughtSignature": SIGNATURE,
        },
        {"functionCall": {"id": ids[1], "name": "weather", "args": {"at": "B"}}},
    ]
    assert [cast("Json", one["functionResponse"])["response"] for one in parts_of(responses)] == [
        {"degrees": 21},
        {"result": "rain"},
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_and_the_signature_of_a_text_go_back(setting: Setting, stream: bool) -> None:
    create = setting.client.chat.completions.create
    if stream:
        chunks = [one async for one in await create(model="chat", messages=[HELLO], stream=True)]
        blocks = [block for one in chunks for block in details(one.choices[0].delta)]
    else:
        message = (await create(model="chat", messages=[HELLO])).choices[0].message
        blocks = details(message)

    turn: Json = {"role": "assistant", "content": "Hello 🌍", "reasoning_details": blocks}
    await create(model="chat", messages=[HELLO, cast("ChatCompletionMessageParam", turn), HELLO])

    *thoughts, said = parts_of(contents(setting.sent())[1])
    assert said == {"text": "Hello 🌍", "thoughtSignature": TEXT_SIGNATURE}
    assert thoughts in ([], [{"text": "Hm.", "thought": True}])


def details(said: BaseModel) -> list[object]:
    """The blocks of thinking in a message, or in a piece of one."""
    return cast("list[object]", getattr(said, "reasoning_details", None) or [])


async def test_a_result_without_its_call_is_the_users_text(setting: Setting) -> None:
    await setting.client.chat.completions.create(
        model="chat",
        messages=[HELLO, {"role": "tool", "tool_call_id": "call_9", "content": "21"}],
    )

    contents = cast("list[dict[str, object]]", setting.server.requests[-1].json["contents"])
    assert [one["role"] for one in contents] == ["user", "user"]
    assert "21" in str(contents[1]["parts"])


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unreadable_call_is_tried_again(setting: Setting, stream: bool) -> None:
    with pytest.raises(openai.APIStatusError, match="MALFORMED_FUNCTION_CALL") as caught:
        await setting.client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": MALFORMED}], stream=stream
        )

    assert caught.value.status_code == 502
    assert len(setting.server.requests) > 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_blocked_prompt_is_a_filtered_answer(setting: Setting, stream: bool) -> None:
    create = setting.client.chat.completions.create
    asked: ChatCompletionMessageParam = {"role": "user", "content": BLOCKED}
    if stream:
        chunks = [one async for one in await create(model="chat", messages=[asked], stream=True)]
        reason = chunks[-1].choices[0].finish_reason
    else:
        reason = (await create(model="chat", messages=[asked])).choices[0].finish_reason

    assert reason == "content_filter"


async def test_an_exhausted_quota_is_waited_for_and_then_reported(setting: Setting) -> None:
    with pytest.raises(openai.RateLimitError, match="studio: Quota exceeded"):
        await setting.client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": FAILING}]
        )

    assert len(setting.server.requests) > 1


async def test_vertex_is_called_at_its_own_address_with_its_token(setting: Setting) -> None:
    answer = await setting.client.chat.completions.create(
        model="cloud", messages=[{"role": "system", "content": "Be brief."}, HELLO]
    )

    (request,) = setting.server.requests
    assert answer.choices[0].message.content == "Hello 🌍"
    assert request.path == (
        "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-flash:generateContent"
    )
    assert request.headers["authorization"] == "Bearer a-token"
    assert "x-goog-api-key" not in request.headers
    assert setting.sent()["systemInstruction"] == {"parts": [{"text": "Be brief."}]}


async def test_an_image_in_cloud_storage_is_googles_to_read(setting: Setting) -> None:
    def seeing(url: str) -> ChatCompletionMessageParam:
        return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}

    await setting.client.chat.completions.create(
        model="chat",
        messages=[seeing("gs://bucket/cat.png"), seeing("data:image/png;base64,iVBORw0KGgo=")],
    )

    assert [parts_of(one) for one in contents(setting.sent())] == [
        [{"fileData": {"mimeType": "image/png", "fileUri": "gs://bucket/cat.png"}}],
        [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
    ]


async def test_a_schema_and_geminis_own_fields_reach_the_server(setting: Setting) -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"a": {"type": "integer"}}}

    await setting.client.chat.completions.create(
        model="chat",
        messages=[HELLO],
        temperature=0,
        stop=["END"],
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        extra_body={"thinkingConfig": {"thinkingBudget": 128}, "safetySettings": []},
    )

    assert setting.sent()["safetySettings"] == []
    assert setting.sent()["generationConfig"] == {
        "temperature": 0.0,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
        "thinkingConfig": {"thinkingBudget": 128},
    }


async def test_what_gemini_cannot_do_is_refused_by_name(setting: Setting) -> None:
    with pytest.raises(openai.BadRequestError, match="logit_bias") as caught:
        await setting.client.chat.completions.create(
            model="chat", messages=[HELLO], logit_bias={"5": 1}
        )

    assert caught.value.param == "logit_bias"
    assert not setting.server.requests


async def test_texts_become_vectors(setting: Setting) -> None:
    texts = [str(place) for place in range(101)]

    answer = await setting.client.embeddings.create(model="chat", input=texts, dimensions=2)

    assert [one.embedding for one in answer.data] == [[0.5, -1.0]] * 101
    sizes = [len(cast("list[Json]", one.json["requests"])) for one in setting.server.requests]
    assert sorted(sizes) == [1, 100]
    assert cast("list[Json]", setting.sent()["requests"])[0]["outputDimensionality"] == 2


async def test_the_model_that_answered_is_reported(setting: Setting) -> None:
    raw = await setting.client.chat.completions.with_raw_response.create(
        model="chat", messages=[HELLO]
    )

    assert MODEL_VERSION in json.dumps(dict(raw.headers)) + raw.text
