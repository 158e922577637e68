"""Cohere's own client sends the same bodies, and reads the same answers."""

import json
from collections.abc import Awaitable, Callable
from typing import cast

import cohere
import msgspec
import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.cohere.adapter import CohereAdapter
from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    ResponseFormat,
    TextPart,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.requests import EmbeddingsRequest, Request
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.chats import chat
from tests.adapters.traffic import fixture
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

COHERE = CohereAdapter(Endpoint(name="cohere", base_url="https://api.cohere.com"))

Json = dict[str, object]
Ask = Callable[[cohere.AsyncClientV2], Awaitable[object]]

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
RAW_PARAMETERS = Raw(json.dumps(PARAMETERS).encode())
WEATHER = cohere.ToolV2(
    type="function",
    function=cohere.ToolV2Function(name="weather", description="Look out.", parameters=PARAMETERS),
)
OUR_WEATHER = FunctionTool(name="weather", description="Look out.", parameters=RAW_PARAMETERS)
HELLO = cohere.UserChatMessageV2(content="hello")


CALL = cohere.ToolCallV2(
    id="weather_1",
    function=cohere.ToolCallV2Function(name="weather", arguments='{"city":"Bern"}'),
)

ASKED: dict[str, tuple[Ask, Request]] = {
    "chat": (lambda sdk: sdk.chat(model="m", messages=[HELLO]), chat()),
    "sampling": (
        lambda sdk: sdk.chat(
            model="m",
            messages=[HELLO],
            max_tokens=9,
            temperature=0.5,
            p=0.9,
            k=5,
            seed=42,
            stop_sequences=["END"],
            presence_penalty=0.5,
            frequency_penalty=0.25,
            logprobs=True,
        ),
        chat(
            sampling=Sampling(
                max_tokens=9,
                temperature=0.5,
                top_p=0.9,
                top_k=5,
                seed=42,
                stop=("END",),
                presence_penalty=0.5,
                frequency_penalty=0.25,
                logprobs=True,
            )
        ),
    ),
    "thinking": (
        lambda sdk: sdk.chat(
            model="m", messages=[HELLO], thinking=cohere.Thinking(type="enabled", token_budget=1024)
        ),
        chat(reasoning_effort="low"),
    ),
    "schema": (
        lambda sdk: sdk.chat(
            model="m",
            messages=[HELLO],
            response_format=cohere.JsonObjectResponseFormatV2(json_schema=PARAMETERS),
        ),
        chat(response_format=ResponseFormat(type="json_schema", name="x", schema=RAW_PARAMETERS)),
    ),
    "image": (
        lambda sdk: sdk.chat(
            model="m",
            messages=[
                cohere.UserChatMessageV2(
                    content=[
                        cohere.TextContent(text="What?"),
                        cohere.ImageUrlContent(
                            image_url=cohere.ImageUrl(url="https://a.test/a.png", detail="low")
                        ),
                    ]
                )
            ],
        ),
        chat(
            Message(
                role="user",
                content=(
                    TextPart(text="What?"),
                    ImagePart(url="https://a.test/a.png", detail="low"),
                ),
            )
        ),
    ),
    "documents": (
        lambda sdk: sdk.chat(
            model="m",
            messages=[HELLO],
            documents=["It is warm."],
            citation_options=cohere.CitationOptions(mode="FAST"),
            safety_mode="STRICT",
        ),
        chat(
            extra={
                "documents": Raw(b'["It is warm."]'),
                "citation_options": Raw(b'{"mode":"FAST"}'),
                "safety_mode": Raw(b'"STRICT"'),
            }
        ),
    ),
    "tools": (
        lambda sdk: sdk.chat(
            model="m",
            messages=[
                cohere.SystemChatMessageV2(content="Be brief."),
                HELLO,
                cohere.AssistantChatMessageV2(tool_plan="I will look.", tool_calls=[CALL]),
                cohere.ToolChatMessageV2(tool_call_id="weather_1", content="21"),
            ],
            tools=[WEATHER],
            tool_choice="REQUIRED",
            strict_tools=True,
        ),
        chat(
            Message(role="developer", content="Be brief."),
            Message(role="user", content="hello"),
            Message(
                role="assistant",
                reasoning="I will look.",
                tool_calls=(ToolCall(id="weather_1", name="weather", arguments='{"city":"Bern"}'),),
            ),
            Message(role="tool", content="21", tool_call_id="weather_1"),
            tools=(msgspec.structs.replace(OUR_WEATHER, strict=True),),
            tool_choice=ToolChoice(mode="named", name="weather"),
        ),
    ),
    "embed": (
        lambda sdk: sdk.embed(
            model="m",
            input_type="search_query",
            texts=["one", "two"],
            embedding_types=["float"],
            truncate="NONE",
            output_dimension=256,
        ),
        EmbeddingsRequest(
            model="m",
            inputs=("one", "two"),
            dimensions=256,
            extra={"input_type": Raw(b'"search_query"')},
        ),
    ),
}


async def answers(request: Received, answer: Answer) -> None:
    name = "embed-two" if request.path == "/v2/embed" else "chat-thinking-and-tools"
    await answer.body(fixture(f"cohere/{name}").body, "application/json")


@pytest.mark.parametrize("name", ASKED)
async def test_the_client_and_the_adapter_send_the_same(name: str) -> None:
    ask, request = ASKED[name]
    async with (
        provider(answers) as server,
        cohere.AsyncClientV2("co-key", base_url=server.origin) as sdk,
    ):
        await ask(sdk)

    (theirs,) = server.requests
    sent = COHERE.encode(request, "m")
    assert sent.target == theirs.path
    assert theirs.headers["authorization"] == "Bearer co-key"
    assert msgspec.json.decode(sent.body, type=Json) == theirs.json


async def test_the_client_reads_a_stream_as_the_adapter_does() -> None:
    case = fixture("cohere/chat-stream-plan-and-two-tools")

    async def streams(_: Received, answer: Answer) -> None:
        await answer.body(case.body, "text/event-stream")

    async with (
        provider(streams) as server,
        cohere.AsyncClientV2("co-key", base_url=server.origin) as sdk,
    ):
        steps = [step async for step in sdk.chat_stream(model="m", messages=[HELLO])]

    (theirs,) = server.requests
    ours = COHERE.encode(chat(stream=True), "m")
    fold = Fold()
    fold.add(translate(COHERE, chat(stream=True), [case.body]))
    (choice,) = fold.answer().choices
    calls = [
        cast("cohere.ToolCallV2", step.delta.message.tool_calls)
        for step in steps
        if step.type == "tool-call-start" and step.delta and step.delta.message
    ]
    assert msgspec.json.decode(ours.body, type=Json) == theirs.json
    assert [one.id for one in choice.tool_calls] == [one.id for one in calls]
    assert choice.reasoning == "".join(
        step.delta.message.tool_plan or ""
        for step in steps
        if step.type == "tool-plan-delta" and step.delta and step.delta.message
    )
