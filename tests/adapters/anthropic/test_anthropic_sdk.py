"""Anthropic's own client sends the same bodies, and reads the same answers."""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import anthropic
import msgspec
import pytest
from anthropic.types import ContentBlock, MessageParam, ToolParam

from strowger_gateway.adapters.testing import request_for, translate
from strowger_gateway.schemas.answers import Choice, Fold
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    ResponseFormat,
    TextPart,
    Thought,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.anthropic.anthropic_doubles import ANTHROPIC, Json, chat, file, raw
from tests.adapters.traffic import fixture
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

Ask = Callable[[anthropic.AsyncAnthropic], Awaitable[object]]

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
WEATHER: ToolParam = {"name": "weather", "description": "Look out.", "input_schema": SCHEMA}
OUR_WEATHER = FunctionTool(name="weather", description="Look out.", parameters=raw(SCHEMA))
HELLO: MessageParam = {"role": "user", "content": "hello"}
OUR_HELLO = Message(role="user", content="hello")
CALLS = (
    ToolCall(id="toolu_1", name="weather", arguments='{"city":"Bern"}'),
    ToolCall(id="toolu_2", name="weather", arguments='{"city":"Basel"}'),
)
LOOP: list[MessageParam] = [
    HELLO,
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "ZW5j"},
            {"type": "text", "text": "One moment."},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Bern"}},
            {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {"city": "Basel"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "19"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "21", "is_error": False},
            {"type": "text", "text": "And?"},
        ],
    },
]
OUR_LOOP = (
    OUR_HELLO,
    Message(
        role="assistant",
        content="One moment.",
        thoughts=(Thought(text="Hm.", signature="c2ln"), Thought(data="ZW5j")),
        tool_calls=CALLS,
    ),
    Message(role="tool", content="19", tool_call_id="toolu_1"),
    Message(role="tool", content="21", tool_call_id="toolu_2", raw=raw({"is_error": False})),
    Message(role="user", content="And?"),
)

ASKED: dict[str, tuple[Ask, ChatRequest]] = {
    "chat": (
        lambda sdk: sdk.messages.create(model="m", max_tokens=2000, messages=[HELLO]),
        chat(OUR_HELLO),
    ),
    "stream": (
        lambda sdk: sdk.messages.create(model="m", max_tokens=2000, messages=[HELLO], stream=True),
        chat(OUR_HELLO, stream=True),
    ),
    "sampling": (
        lambda sdk: sdk.messages.create(
            model="m",
            max_tokens=9,
            messages=[HELLO],
            system=[{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
            stop_sequences=["END"],
            metadata={"user_id": "u-1"},
            service_tier="standard_only",
            # Fields that this version of the client has dropped.
            extra_body={"temperature": 0.5, "top_p": 0.9, "top_k": 5},
        ),
        chat(
            Message(role="system", content="One."),
            Message(role="developer", content="Two."),
            OUR_HELLO,
            sampling=Sampling(max_tokens=9, temperature=0.5, top_p=0.9, top_k=5, stop=("END",)),
            user="u-1",
            extra={"service_tier": raw("standard_only")},
        ),
    ),
    "tools": (
        lambda sdk: sdk.messages.create(
            model="m",
            max_tokens=2000,
            messages=LOOP,
            tools=[{**WEATHER, "strict": True, "cache_control": {"type": "ephemeral"}}],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
            thinking={"type": "adaptive"},
            output_config={"effort": "high"},
        ),
        chat(
            *OUR_LOOP,
            tools=(
                msgspec.structs.replace(
                    OUR_WEATHER, strict=True, raw=raw({"cache_control": {"type": "ephemeral"}})
                ),
            ),
            tool_choice=ToolChoice(mode="required"),
            parallel_tool_calls=False,
            reasoning_effort="high",
        ),
    ),
    "named tool": (
        lambda sdk: sdk.messages.create(
            model="m",
            max_tokens=2000,
            messages=[HELLO],
            tools=[WEATHER],
            tool_choice={"type": "tool", "name": "weather"},
        ),
        chat(OUR_HELLO, tools=(OUR_WEATHER,), tool_choice=ToolChoice(mode="named", name="weather")),
    ),
    "schema": (
        lambda sdk: sdk.messages.create(
            model="m",
            max_tokens=2000,
            messages=[HELLO],
            output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
        ),
        chat(
            OUR_HELLO,
            response_format=ResponseFormat(type="json_schema", name="x", schema=raw(SCHEMA)),
        ),
    ),
    "images and documents": (
        lambda sdk: sdk.messages.create(
            model="m",
            max_tokens=2000,
            messages=[
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What?", "cache_control": {"type": "ephemeral"}},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
                        },
                        {"type": "image", "source": {"type": "url", "url": "https://a.test/a.png"}},
                        {
                            "type": "document",
                            "title": "a.pdf",
                            "source": {
                                "type": "base64",
                                "media_type": "application/pdf",
                                "data": "AAAA",
                            },
                        },
                    ],
                }
            ],
        ),
        chat(
            Message(
                role="user",
                content=(
                    TextPart(text="What?", raw=raw({"cache_control": {"type": "ephemeral"}})),
                    ImagePart(url="data:image/png;base64,AAAA"),
                    ImagePart(url="https://a.test/a.png"),
                    file(file_data="data:application/pdf;base64,AAAA", filename="a.pdf"),
                ),
            )
        ),
    ),
}


def meaning(body: Json) -> Json:
    """Normalise: a string equals one block of text, an absent `stream` equals false."""

    def told(one: Json) -> Json:
        content = one.get("content")
        if "role" in one and isinstance(content, str):
            one = {**one, "content": [{"type": "text", "text": content}]}
        return {name: value for name, value in one.items() if value is not False}

    return json.loads(json.dumps(body), object_hook=told)


def sdk_for(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key="sk-ant-0123456789", max_retries=0)


@pytest.mark.vendor_refuses(
    "anthropic-strict-schema", "anthropic-thinking-choice", because="its client sends"
)
@pytest.mark.parametrize("name", ASKED)
async def test_the_client_and_the_adapter_send_the_same(name: str) -> None:
    ask, request = ASKED[name]

    async def answers(_: Received, answer: Answer) -> None:
        case = fixture("anthropic/chat-nothing-to-add")
        await answer.body(case.body, "application/json")

    async with provider(answers) as server, sdk_for(server.origin) as sdk:
        await ask(sdk)

    (theirs,) = server.requests
    sent = ANTHROPIC.encode(request, "m")
    assert sent.target == theirs.path
    assert meaning(msgspec.json.decode(sent.body, type=Json)) == meaning(theirs.json)
    assert dict(sent.headers)["content-type"] == theirs.headers["content-type"]


@pytest.mark.parametrize(
    "name",
    [
        "chat-stream-interleaved",
        "chat-stream-thinking-then-tools",
        "chat-stream-search-and-pause",
        "chat-thinking-and-tools",
    ],
)
async def test_the_client_reads_an_answer_as_the_adapter_does(name: str) -> None:
    case = fixture(f"anthropic/{name}")

    async def answers(_: Received, answer: Answer) -> None:
        await answer.body(case.body, "text/event-stream" if case.streamed else "application/json")

    async with provider(answers) as server, sdk_for(server.origin) as sdk:
        if case.streamed:
            async with sdk.messages.stream(model="m", max_tokens=9, messages=[HELLO]) as stream:
                message = await stream.get_final_message()
        else:
            message = await sdk.messages.create(model="m", max_tokens=9, messages=[HELLO])

    request, fold = request_for(case), Fold()
    assert isinstance(request, ChatRequest)
    fold.add(translate(ANTHROPIC, request, [case.body]))
    answer = fold.answer()
    (choice,) = answer.choices
    agree(choice, message.content)
    assert answer.started.id == message.id
    assert choice.finish is not None
    assert choice.finish.native == message.stop_reason
    assert answer.usage is not None
    assert answer.usage.completion_tokens == message.usage.output_tokens


def agree(choice: Choice, content: Sequence[ContentBlock]) -> None:
    """Check that texts, reasoning, calls and returned blocks are those of the client's blocks."""
    assert (choice.text or "") == "".join(one.text for one in content if one.type == "text")
    assert [(one.text, one.signature) for one in choice.thoughts if not one.data] == [
        (one.thinking, one.signature) for one in content if one.type == "thinking"
    ]
    assert [one.data for one in choice.thoughts if one.data] == [
        one.data for one in content if one.type == "redacted_thinking"
    ]
    assert [(one.id, one.name, json.loads(one.arguments)) for one in choice.tool_calls] == [
        (one.id, one.name, one.input) for one in content if one.type == "tool_use"
    ]
    if "content_blocks" in choice.opaque:
        handed = cast("list[Json]", json.loads(bytes(choice.opaque["content_blocks"])))
        theirs = [one.to_dict(mode="json") for one in content]
        assert handed == [{k: v for k, v in one.items() if v is not None} for one in theirs]
