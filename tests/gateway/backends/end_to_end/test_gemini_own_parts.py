"""Parts that only Gemini has return to it, whichever API the client speaks."""

import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import cast

import anthropic
import pytest
from anthropic.types import MessageParam
from openai.types.responses import ResponseInputParam

from tests.gateway.backends.vendors.alone import Json, Setting, in_front_of, turn_of
from tests.stand_ins.gemini_server import contents, frame, parts_of, whole
from tests.stand_ins.provider import Answer, Received

pytestmark = pytest.mark.anyio

CONFIG = """
providers:
  - {{name: studio, adapter: gemini, base_url: "{url}/v1beta", api_key: k}}
models:
  - {{name: chat, backends: [{{provider: studio, model: gemini-3-flash-preview}}]}}
"""
OWN: list[Json] = [
    {"executableCode": {"language": "PYTHON", "code": "print(6 * 7)"}, "thoughtSignature": "c2ln"},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}},
    {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"q": "tea"}, "id": "g1"}},
    {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"hits": 2}, "id": "g1"}},
]
NOT_SENT_BACK: Json = {"fileData": {"fileUri": "gs://of-the-operator/x.png"}}
TEXT: Json = {"text": "It is 42."}
AGAIN = "And twice that?"


async def made_by_tools(request: Received, answer: Answer) -> None:
    frames = [frame(*OWN[:2]), frame(*OWN[2:], NOT_SENT_BACK), frame(TEXT, finishReason="STOP")]
    if not request.path.endswith("?alt=sse"):
        await answer.json(whole(frames))
        return
    await answer.begin_stream()
    for one in frames:
        await answer.chunk(b"data: " + json.dumps(one).encode() + b"\r\n\r\n")
    await answer.raw(b"0\r\n\r\n")


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncGenerator[Setting, None]:
    async with in_front_of(made_by_tools, CONFIG, tmp_path) as one:
        yield one


def returned(setting: Setting) -> Sequence[Json]:
    """The parts of the model's turn in the request that Google got last."""
    _, turn, _ = contents(setting.sent())
    return parts_of(turn)


@pytest.mark.parametrize("stream", [False, True])
async def test_they_return_from_a_client_of_messages(setting: Setting, stream: bool) -> None:
    hello: MessageParam = {"role": "user", "content": "What is 6 * 7?"}
    async with anthropic.AsyncAnthropic(base_url=setting.gateway.url, api_key="x") as client:
        if stream:
            async with client.messages.stream(
                model="chat", max_tokens=9, messages=[hello]
            ) as events:
                first = await events.get_final_message()
        else:
            first = await client.messages.create(model="chat", max_tokens=9, messages=[hello])
        turns: list[MessageParam] = [
            hello,
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": AGAIN},
        ]
        await client.messages.create(model="chat", max_tokens=9, messages=turns)

    assert first.content[-1].to_dict() == {"type": "text", "text": "It is 42."}
    assert returned(setting) == [*OWN, TEXT]


@pytest.mark.parametrize("stream", [False, True])
async def test_they_return_from_a_client_of_responses(setting: Setting, stream: bool) -> None:
    create = setting.client.responses.create
    if stream:
        events = [one async for one in await create(model="chat", input="6 * 7?", stream=True)]
        last = events[-1]
        assert last.type == "response.completed"
        first = last.response
    else:
        first = await create(model="chat", input="6 * 7?")
    items = [
        {"role": "user", "content": "6 * 7?"},
        *(one.to_dict() for one in first.output),
        {"role": "user", "content": AGAIN},
    ]
    await create(model="chat", input=cast("ResponseInputParam", items))

    assert first.output_text == "It is 42."
    assert returned(setting) == [*OWN, TEXT]


async def test_they_return_from_a_client_of_chat_completions_once(setting: Setting) -> None:
    create = setting.client.chat.completions.create
    first = await create(model="chat", messages=[{"role": "user", "content": "6 * 7?"}])
    message = first.choices[0].message

    await create(
        model="chat",
        messages=[
            {"role": "user", "content": "6 * 7?"},
            turn_of(message),
            {"role": "user", "content": AGAIN},
        ],
    )

    assert message.to_dict()["gemini_parts"] == [*OWN, NOT_SENT_BACK]
    assert returned(setting) == [*OWN, TEXT]
