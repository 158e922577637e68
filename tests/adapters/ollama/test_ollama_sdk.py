"""Ollama's own client sends the same bodies, and reads the same answers."""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, cast

import msgspec
import ollama
import pytest
from msgspec import Raw

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.ollama.adapter import OllamaAdapter
from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.answers import Fold
from strowger_gateway.schemas.messages import (
    FunctionTool,
    ImagePart,
    Message,
    ResponseFormat,
    TextPart,
    ToolCall,
)
from strowger_gateway.schemas.requests import CompletionRequest, EmbeddingsRequest, Request
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.chats import chat
from tests.adapters.traffic import fixture
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

OLLAMA = OllamaAdapter(Endpoint(name="ollama", base_url="http://gpu.test:11434"))

Json = dict[str, object]
Ask = Callable[[ollama.AsyncClient], Awaitable[object]]


class Talks(Protocol):
    """The client, whose type of `chat` has untyped functions as tools."""

    async def chat(self, model: str, messages: Sequence[Json], **fields: object) -> object: ...


def talk(*messages: Json, **fields: object) -> Ask:
    return lambda sdk: cast("Talks", sdk).chat("m", messages, **fields)


PNG = b"\x89PNG\r\n\x1a\n"
PICTURE = base64.b64encode(PNG).decode()
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "Look out.", "parameters": PARAMETERS},
}
HELLO: Json = {"role": "user", "content": "hello"}
CALL = {"function": {"name": "weather", "arguments": {"city": "Bern"}}}
OURS: Json = {"truncate": False, "shift": False}
"""What the client has no argument for."""


ASKED: dict[str, tuple[Ask, Request, Json]] = {
    "chat": (talk(HELLO, stream=False), chat(), OURS),
    "sampling": (
        talk(
            HELLO,
            options={
                "num_predict": 9,
                "temperature": 0.5,
                "top_p": 0.9,
                "top_k": 5,
                "min_p": 0.05,
                "typical_p": 0.5,
                "seed": 42,
                "stop": ["END"],
                "presence_penalty": 0.5,
                "frequency_penalty": -0.5,
                "repeat_penalty": 1.5,
                "num_ctx": 8192,
            },
            logprobs=True,
            top_logprobs=3,
            keep_alive="5m",
        ),
        chat(
            sampling=Sampling(
                max_tokens=9,
                temperature=0.5,
                top_p=0.9,
                top_k=5,
                min_p=0.05,
                typical_p=0.5,
                seed=42,
                stop=("END",),
                presence_penalty=0.5,
                frequency_penalty=-0.5,
                repetition_penalty=1.5,
                logprobs=True,
                top_logprobs=3,
            ),
            extra={"options": Raw(b'{"num_ctx":8192}'), "keep_alive": Raw(b'"5m"')},
        ),
        OURS,
    ),
    "thinking": (
        talk(HELLO, think="high"),
        chat(reasoning_effort="high"),
        OURS,
    ),
    "no-thinking": (
        talk(HELLO, think=False),
        chat(reasoning_effort="none"),
        OURS,
    ),
    "json": (
        talk(HELLO, format="json"),
        chat(response_format=ResponseFormat(type="json_object")),
        OURS,
    ),
    "schema": (
        talk(HELLO, format=PARAMETERS),
        chat(
            response_format=ResponseFormat(
                type="json_schema", name="x", schema=Raw(json.dumps(PARAMETERS).encode())
            )
        ),
        OURS,
    ),
    "image": (
        talk({"role": "user", "content": "What?", "images": [PNG]}),
        chat(
            Message(
                role="user",
                content=(
                    TextPart(text="What?"),
                    ImagePart(url=f"data:image/png;base64,{PICTURE}"),
                ),
            )
        ),
        OURS,
    ),
    "tools": (
        talk(
            HELLO,
            {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [CALL]},
            {"role": "tool", "content": "21", "tool_name": "weather"},
            tools=[WEATHER],
        ),
        chat(
            Message(role="user", content="hello"),
            Message(
                role="assistant",
                reasoning="Hm.",
                tool_calls=(ToolCall(id="call_1", name="weather", arguments='{"city":"Bern"}'),),
            ),
            Message(role="tool", content="21", tool_call_id="call_1"),
            tools=(
                FunctionTool(
                    name="weather",
                    description="Look out.",
                    parameters=Raw(json.dumps(PARAMETERS).encode()),
                ),
            ),
        ),
        OURS,
    ),
    "raw": (
        lambda sdk: sdk.generate("m", "def add(", raw=True, think=False),
        CompletionRequest(model="m", prompts=("def add(",)),
        OURS,
    ),
    "templated": (
        lambda sdk: sdk.generate("m", "Why?", options={"num_predict": 3}),
        CompletionRequest(
            model="m", prompts=("Why?",), template=True, sampling=Sampling(max_tokens=3)
        ),
        OURS,
    ),
    "suffix": (
        lambda sdk: sdk.generate("m", "def add(", "return c"),
        CompletionRequest(model="m", prompts=("def add(",), suffix="return c"),
        OURS,
    ),
    "embed": (
        lambda sdk: sdk.embed("m", ["one", "two"], truncate=False, dimensions=64),
        EmbeddingsRequest(model="m", inputs=("one", "two"), dimensions=64),
        {},
    ),
}  # fmt: skip


def meaning(body: Json) -> Json:
    """Return the body without call ids, which the client lacks, and without empty values."""

    def told(one: Json) -> Json:
        empty = ("content", "tools")
        return {
            name: value
            for name, value in one.items()
            if name not in ("id", "tool_call_id") and not (name in empty and not value)
        }

    return json.loads(json.dumps(body), object_hook=told)


async def answers(request: Received, answer: Answer) -> None:
    if request.path == "/api/embed":
        await answer.json({"model": "m", "embeddings": [[0.5], [1.0]]})
    else:
        message = {"role": "assistant", "content": "hi"}
        await answer.json({"model": "m", "message": message, "response": "hi", "done": True})


@pytest.mark.parametrize("name", ASKED)
async def test_the_client_and_the_adapter_send_the_same(name: str) -> None:
    ask, request, ours = ASKED[name]
    async with provider(answers) as server:
        sdk = ollama.AsyncClient(server.origin)
        async with sdk:
            await ask(sdk)

    (theirs,) = server.requests
    sent = OLLAMA.encode(request, "m")
    assert sent.target == theirs.path
    assert meaning(msgspec.json.decode(sent.body, type=Json)) == meaning({**theirs.json, **ours})


async def test_the_client_reads_a_recorded_stream_as_the_adapter_does() -> None:
    case = fixture("ollama/chat-stream-thinking-tools")

    async def streams(_: Received, answer: Answer) -> None:
        await answer.body(case.body, "application/x-ndjson")

    async with provider(streams) as server:
        sdk = ollama.AsyncClient(server.origin)
        async with sdk:
            stream = await talk(HELLO, stream=True)(sdk)
            parts = [part async for part in cast("AsyncIterator[ollama.ChatResponse]", stream)]

    fold = Fold()
    fold.add(translate(OLLAMA, chat(stream=True), [case.body]))
    answer = fold.answer()
    (choice,) = answer.choices
    calls = [call.function for part in parts for call in part.message.tool_calls or ()]
    assert choice.text == "".join(part.message.content or "" for part in parts)
    assert choice.reasoning == "".join(part.message.thinking or "" for part in parts)
    assert [call.name for call in choice.tool_calls] == [call.name for call in calls]
    assert [json.loads(call.arguments) for call in choice.tool_calls] == [
        call.arguments for call in calls
    ]
    assert answer.usage is not None
    assert answer.usage.completion_tokens == parts[-1].eval_count
