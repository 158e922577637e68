"""Mistral's own client sends the same bodies, and reads the same answers."""

import json
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

import pytest
from mistralai.client import Mistral
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.mistral.adapter import MistralAdapter
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
from strowger_gateway.schemas.requests import (
    ChatRequest,
    CompletionRequest,
    EmbeddingsRequest,
    Request,
)
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.openai.openai_doubles import CHAT, HELLO
from tests.adapters.traffic import fixture
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = [
    pytest.mark.anyio,
    # The client's generated models shadow names of pydantic's base class.
    pytest.mark.filterwarnings("ignore:Field name .* shadows an attribute:UserWarning"),
]

ADAPTER = MistralAdapter(Endpoint(name="mistral", base_url="https://api.mistral.ai/v1"))

Json = dict[str, object]
Ask = Callable[[Mistral], Awaitable[object]]


class Talks(Protocol):
    """The client's methods; its own types are generated and partly unknown."""

    async def complete_async(self, *, model: str, **fields: object) -> object: ...
    async def create_async(self, *, model: str, **fields: object) -> object: ...


def talk(*messages: Json, **fields: object) -> Ask:
    said = list(messages) or [{"role": "user", "content": "hello"}]
    return lambda sdk: cast("Talks", sdk.chat).complete_async(model="m", messages=said, **fields)


SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
RAW_SCHEMA = Raw(json.dumps(SCHEMA).encode())
WEATHER: Json = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
CALL: Json = {"id": "abcdefgh0", "function": {"name": "weather", "arguments": '{"city":"Bern"}'}}
PICTURE = "data:image/png;base64,iVBORw0KGgo="

ASKED: dict[str, tuple[Ask, Request]] = {
    "chat": (talk(), ChatRequest(model="m", messages=(HELLO,))),
    "sampling": (
        talk(
            temperature=0.5,
            top_p=0.9,
            top_k=5,
            max_tokens=9,
            min_tokens=2,
            stop=["END"],
            random_seed=42,
            presence_penalty=0.5,
            frequency_penalty=-0.5,
            repetition_penalty=1.5,
            logprobs=True,
            top_logprobs=3,
            n=2,
            safe_prompt=True,
        ),
        ChatRequest(
            model="m",
            messages=(HELLO,),
            sampling=Sampling(
                temperature=0.5,
                top_p=0.9,
                top_k=5,
                max_tokens=9,
                min_tokens=2,
                stop=("END",),
                seed=42,
                presence_penalty=0.5,
                frequency_penalty=-0.5,
                repetition_penalty=1.5,
                logprobs=True,
                top_logprobs=3,
                n=2,
            ),
            extra={"safe_prompt": Raw(b"true")},
        ),
    ),
    "schema": (
        talk(
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "x", "schema_definition": SCHEMA, "strict": True},
            }
        ),
        ChatRequest(
            model="m",
            messages=(HELLO,),
            response_format=ResponseFormat(
                type="json_schema", name="x", schema=RAW_SCHEMA, strict=True
            ),
        ),
    ),
    "tools": (
        talk(
            {"role": "user", "content": "hello"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                ],
                "tool_calls": [CALL],
            },
            {"role": "tool", "content": "21", "tool_call_id": "abcdefgh0"},
            tools=[WEATHER],
            tool_choice="any",
            parallel_tool_calls=False,
        ),
        ChatRequest(
            model="m",
            messages=(
                HELLO,
                Message(
                    role="assistant",
                    reasoning="Hm.",
                    tool_calls=(
                        ToolCall(id="abcdefgh0", name="weather", arguments='{"city":"Bern"}'),
                    ),
                ),
                Message(role="tool", content="21", tool_call_id="abcdefgh0"),
            ),
            tools=(FunctionTool(name="weather", parameters=RAW_SCHEMA),),
            tool_choice=ToolChoice(mode="required"),
            parallel_tool_calls=False,
        ),
    ),
    "image": (
        talk(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What?"},
                    {"type": "image_url", "image_url": {"url": PICTURE}},
                ],
            }
        ),
        ChatRequest(
            model="m",
            messages=(
                Message(role="user", content=(TextPart(text="What?"), ImagePart(url=PICTURE))),
            ),
        ),
    ),
    "fim": (
        lambda sdk: cast("Talks", sdk.fim).complete_async(
            model="m", prompt="def f(", suffix="return c", max_tokens=3, random_seed=1
        ),
        CompletionRequest(
            model="m",
            prompts=("def f(",),
            suffix="return c",
            sampling=Sampling(max_tokens=3, seed=1),
        ),
    ),
    "embeddings": (
        lambda sdk: cast("Talks", sdk.embeddings).create_async(
            model="m", inputs=["a", "b"], output_dimension=8, output_dtype="int8"
        ),
        EmbeddingsRequest(
            model="m",
            inputs=("a", "b"),
            batch=True,
            dimensions=8,
            extra={"output_dtype": Raw(b'"int8"')},
        ),
    ),
}
"""The same request in the client's words and in ours."""


def meaning(body: object) -> object:
    """Return the body without defaults that the client sends explicitly, and without nulls."""
    spelt = {"stream": False, "prefix": False, "index": 0, "type": "function"}

    def told(one: Json) -> Json:
        return {
            name: value
            for name, value in one.items()
            if value is not None and not (name in spelt and spelt[name] == value)
        }

    return json.loads(json.dumps(body), object_hook=told)


async def answering(request: Received, answer: Answer) -> None:
    """Answer embeddings with an id, which the client requires."""
    if request.path == "/v1/embeddings":
        await answer.body(fixture("mistral/embeddings").body, "application/json")
    else:
        await answers(request, answer)


@pytest.mark.parametrize("name", ASKED)
async def test_the_client_and_the_adapter_send_the_same(name: str) -> None:
    ask, request = ASKED[name]
    async with provider(answering) as server:
        async with Mistral(api_key="k", server_url=server.origin) as sdk:
            await ask(sdk)

    (theirs,) = server.requests
    sent = ADAPTER.encode(request, "m")
    assert sent.target == theirs.path
    assert meaning(json.loads(sent.body)) == meaning(theirs.json)


async def test_the_client_reads_a_stream_as_the_adapter_does() -> None:
    case = fixture("mistral/chat-stream-thinking")

    async def streams(_: Received, answer: Answer) -> None:
        await answer.body(case.body, "text/event-stream")

    async with provider(streams) as server:
        async with Mistral(api_key="k", server_url=server.origin) as sdk:
            stream = await sdk.chat.stream_async(
                model="m", messages=[{"role": "user", "content": "hi"}]
            )
            chunks = [event.data async for event in stream]

    fold = Fold()
    fold.add(translate(ADAPTER, CHAT, [case.body]))
    answer = fold.answer()
    texts = [one.choices[0].delta.content for one in chunks]
    assert answer.choices[0].text == "".join(one for one in texts if isinstance(one, str))
    assert answer.usage is not None
    assert chunks[-1].usage is not None
    assert answer.usage.completion_tokens == chunks[-1].usage.completion_tokens
