"""OpenAI's own client in front of the gateway, Cohere behind it."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.gateway.backends.vendors.alone import HELLO, WEATHER, Json, Setting, in_front_of
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio


CONFIG = """
providers:
  - name: co
    adapter: cohere
    base_url: {url}
    api_key: co-secret-of-the-operator
    timeouts: {{connect_s: 20, first_token_s: 2, between_tokens_s: 1, total_s: 5}}
models:
  - name: chat
    retry: {{backoff_s: 0.01, max_backoff_s: 0.05}}
    breaker: {{min_requests: 1000}}
    backends: [{{provider: co, model: command-a-03-2025}}]
  - name: asking
    backends: [{{provider: co, model: embed-v4.0/search_query}}]
"""
USAGE = {
    "billed_units": {"input_tokens": 2, "output_tokens": 3},
    "tokens": {"input_tokens": 11.0, "output_tokens": 5.0},
    "cached_tokens": 4,
}
CITATION: Json = {"start": 0, "end": 2, "text": "It", "sources": [], "type": "TEXT_CONTENT"}


def message_for(body: Json) -> tuple[Json, str]:
    """Answer with a plan and two calls to requests with tools and no result, else with text."""
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
    return message, "COMPLETE"


async def cohere(request: Received, answer: Answer) -> None:
    body = request.json
    if request.path == "/v2/embed":
        texts = cast("list[str]", body["texts"])
        assert len(texts) <= 96
        vectors = [[float(text), -1.0] for text in texts]
        meta = {"billed_units": {"input_tokens": 2 * len(texts)}}
        await answer.json({"id": "e", "embeddings": {"float": vectors}, "meta": meta})
        return
    message, finish = message_for(body)
    await answer.json({"id": "c1", "finish_reason": finish, "message": message, "usage": USAGE})


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting, None]:
    async with in_front_of(cohere, CONFIG, tmp_path) as one:
        yield one


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


async def test_tools_that_must_be_called_get_their_results_with_the_plan(setting: Setting) -> None:
    first = await setting.client.chat.completions.create(
        model="chat", messages=[HELLO], tools=[WEATHER], tool_choice="required"
    )
    choice = setting.sent()["tool_choice"]
    asked = first.choices[0].message.model_dump(exclude_none=True)
    calls = [one.id for one in first.choices[0].message.tool_calls or []]
    results: list[ChatCompletionMessageParam] = [
        {"role": "tool", "tool_call_id": id, "content": "21"} for id in calls
    ]

    answer = await setting.client.chat.completions.create(
        model="chat",
        messages=[HELLO, cast("ChatCompletionMessageParam", asked), *results],
        tools=[WEATHER],
    )

    assert answer.choices[0].message.content == "It is 21 °C."
    assert (choice, calls) == ("REQUIRED", ["weather_a", "weather_b"])
    back = cast("list[Json]", setting.sent()["messages"])
    assert back[1]["tool_plan"] == "I will look."
    assert [one["id"] for one in cast("list[Json]", back[1]["tool_calls"])] == [
        "weather_a",
        "weather_b",
    ]
    assert [one["tool_call_id"] for one in back[2:]] == ["weather_a", "weather_b"]


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
