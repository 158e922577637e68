"""AWS's own client sends the same bodies, and reads the same answers."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncGenerator, Iterable
from typing import Protocol, cast

import msgspec
import pytest
from msgspec import Raw, Struct

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.bedrock.adapter import BedrockAdapter
from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.answers import Choice, Fold
from strowger_gateway.schemas.messages import (
    AudioPart,
    FunctionTool,
    ImagePart,
    Message,
    OpaquePart,
    ResponseFormat,
    TextPart,
    Thought,
    ToolCall,
    ToolChoice,
)
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest, Request
from strowger_gateway.schemas.sampling import Sampling
from tests.adapters.chats import chat
from tests.stand_ins.bedrock_client import Runtime, runtime
from tests.stand_ins.bedrock_server import ANSWER, ANSWER_STREAM, CALLS, CALLS_STREAM, Json, bedrock
from tests.stand_ins.provider import Provider, provider

pytestmark = pytest.mark.anyio

BEDROCK = BedrockAdapter(Endpoint(name="aws", base_url="https://bedrock-runtime.eu-west-1.test"))
PNG, PDF, WAV = b"\x89PNG\r\n\x1a\n", b"%PDF-1.7", b"RIFF"
PARAMETERS: Json = {"type": "object", "properties": {"at": {"type": "string"}}}
SCHEMA = json.dumps(PARAMETERS, separators=(",", ":"))
NO_PARAMETERS: Json = {"type": "object", "properties": {}}
PROFILE = "arn:aws:bedrock:eu-west-1:000000000000:inference-profile/eu.anthropic.claude-x-v1:0"
HELLO: Json = {"role": "user", "content": [{"text": "hello"}]}
POINT: Json = {"cachePoint": {"type": "default"}}


class Closes(Protocol):
    def close(self) -> None: ...


class Sdk(Struct, frozen=True, kw_only=True, eq=False):
    server: Provider
    client: Runtime

    async def sends(self, verb: str, fields: Json) -> tuple[str, Json]:
        """Return the path and the body that the client sends."""
        read = await asyncio.to_thread(getattr(self.client, verb), **fields)
        for name in {"stream", "body"} & set(read):
            await asyncio.to_thread(list, cast("Iterable[object]", read[name]))
            cast("Closes", read[name]).close()
        request = self.server.requests[-1]
        return request.path, request.json


@pytest.fixture
async def sdk() -> AsyncGenerator[Sdk, None]:
    async with provider(bedrock) as server:
        client = runtime(server.origin)
        yield Sdk(server=server, client=client)
        client.close()


def data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{b64encode(content).decode()}"


def raw(value: object) -> Raw:
    return Raw(json.dumps(value, separators=(",", ":")).encode())


CACHED = raw({"type": "text", "cache_control": {"type": "ephemeral"}})
SPEC: Json = {"name": "weather", "description": "Look.", "inputSchema": {"json": PARAMETERS}}
WEATHER = FunctionTool(name="weather", description="Look.", parameters=raw(PARAMETERS))
ASKED: dict[str, tuple[Json, Request]] = {
    "chat": ({"messages": [HELLO]}, chat()),
    "system-and-sampling": (
        {
            "messages": [HELLO],
            "system": [{"text": "Be brief."}, {"text": "Be kind."}],
            "inferenceConfig": {
                "maxTokens": 9,
                "temperature": 0.5,
                "topP": 0.9,
                "stopSequences": ["END"],
            },
            "additionalModelRequestFields": {"top_k": 5},
        },
        chat(
            Message(role="system", content="Be brief."),
            Message(role="developer", content="Be kind."),
            Message(role="user", content="hello"),
            sampling=Sampling(max_tokens=9, temperature=0.5, top_p=0.9, top_k=5, stop=("END",)),
        ),
    ),
    "tools": (
        {
            "messages": [HELLO],
            "toolConfig": {
                "tools": [
                    {"toolSpec": SPEC},
                    POINT,
                    {
                        "toolSpec": {
                            "name": "clock",
                            "inputSchema": {"json": NO_PARAMETERS},
                            "strict": True,
                        }
                    },
                ],
                "toolChoice": {"tool": {"name": "clock"}},
            },
        },
        chat(
            tools=(
                msgspec.structs.replace(WEATHER, raw=CACHED),
                FunctionTool(name="clock", strict=True),
            ),
            tool_choice=ToolChoice(mode="named", name="clock"),
        ),
    ),
    "tools-fed-back": (
        {
            "messages": [
                HELLO,
                {
                    "role": "assistant",
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s="}}},
                        {"reasoningContent": {"redactedContent": b"\x01\x02"}},
                        {"text": "I look."},
                        {"toolUse": {"toolUseId": "a", "name": "weather", "input": {"at": "A"}}},
                        {"toolUse": {"toolUseId": "b", "name": "weather", "input": {}}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"toolResult": {"toolUseId": "a", "content": [{"text": "21"}]}},
                        {"toolResult": {"toolUseId": "b", "content": []}},
                        {"text": "And?"},
                    ],
                },
            ],
            "toolConfig": {"tools": [{"toolSpec": SPEC}], "toolChoice": {"any": {}}},
        },
        chat(
            Message(role="user", content="hello"),
            Message(
                role="assistant",
                content="I look.",
                thoughts=(
                    Thought(text="Hm.", signature="s="),
                    Thought(data=b64encode(b"\x01\x02").decode()),
                ),
                tool_calls=(
                    ToolCall(id="a", name="weather", arguments='{"at":"A"}'),
                    ToolCall(id="b", name="weather", arguments=""),
                ),
            ),
            Message(role="tool", tool_call_id="a", content="21"),
            Message(role="tool", tool_call_id="b", content=""),
            Message(role="user", content="And?"),
            tools=(WEATHER,),
            tool_choice=ToolChoice(mode="required"),
        ),
    ),
    "bytes": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"text": "What?"},
                        POINT,
                        {"image": {"format": "png", "source": {"bytes": PNG}}},
                        {"audio": {"format": "wav", "source": {"bytes": WAV}}},
                        {
                            "document": {
                                "format": "pdf",
                                "name": "a b",
                                "source": {"bytes": PDF},
                            }
                        },
                        {
                            "document": {
                                "format": "pdf",
                                "name": "a b 2",
                                "source": {"bytes": PDF},
                            }
                        },
                    ],
                }
            ]
        },
        chat(
            Message(
                role="user",
                content=(
                    TextPart(text="What?", raw=CACHED),
                    ImagePart(url=data("image/png", PNG)),
                    AudioPart(data=b64encode(WAV).decode(), format="wav"),
                    *(
                        OpaquePart(
                            type="file",
                            raw=raw(
                                {
                                    "type": "file",
                                    "file": {
                                        "filename": "a_b.pdf",
                                        "file_data": data("application/pdf", PDF),
                                    },
                                }
                            ),
                        )
                        for _ in range(2)
                    ),
                ),
            )
        ),
    ),
    "schema": (
        {
            "messages": [HELLO],
            "outputConfig": {
                "textFormat": {
                    "type": "json_schema",
                    "structure": {
                        "jsonSchema": {"schema": SCHEMA, "name": "x", "description": "An x."}
                    },
                },
                "effort": "low",
            },
            "additionalModelRequestFields": {"thinking": {"type": "adaptive"}},
        },
        chat(
            response_format=ResponseFormat(
                type="json_schema", name="x", description="An x.", schema=raw(PARAMETERS)
            ),
            reasoning_effort="low",
        ),
    ),
    "vendors-own": (
        {
            "messages": [HELLO],
            "guardrailConfig": {"guardrailIdentifier": "abc", "guardrailVersion": "1"},
            "performanceConfig": {"latency": "optimized"},
            "serviceTier": {"type": "flex"},
            "additionalModelResponseFieldPaths": ["/stop_sequence"],
            "additionalModelRequestFields": {
                "top_k": 5,
                "thinking": {"type": "enabled", "budget_tokens": 1024},
            },
            "requestMetadata": {"team": "a", "user": "someone"},
        },
        chat(
            user="someone",
            metadata=raw({"team": "a"}),
            extra={
                "guardrailConfig": raw({"guardrailIdentifier": "abc", "guardrailVersion": "1"}),
                "performanceConfig": raw({"latency": "optimized"}),
                "serviceTier": raw({"type": "flex"}),
                "additionalModelResponseFieldPaths": raw(["/stop_sequence"]),
                "additionalModelRequestFields": raw({"top_k": 5}),
                "thinking": raw({"type": "enabled", "budget_tokens": 1024}),
            },
        ),
    ),
}


@pytest.mark.parametrize("case", ASKED)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_sent_is_what_the_client_sends(sdk: Sdk, case: str, stream: bool) -> None:
    fields, request = ASKED[case]
    assert isinstance(request, ChatRequest)
    verb = "converse_stream" if stream else "converse"

    path, body = await sdk.sends(verb, {"modelId": PROFILE, **fields})
    ours = BEDROCK.encode(msgspec.structs.replace(request, stream=stream), PROFILE)

    assert (ours.target, json.loads(ours.body)) == (path, body)


async def test_embeddings_go_where_the_client_sends_them(sdk: Sdk) -> None:
    fields = {"inputText": "a", "dimensions": 256, "normalize": True}
    request = EmbeddingsRequest(
        model="m", inputs=("a",), dimensions=256, extra={"normalize": raw(True)}
    )

    path, body = await sdk.sends(
        "invoke_model",
        {"modelId": "amazon.titan-embed-text-v2:0", "body": json.dumps(fields).encode()},
    )
    ours = BEDROCK.encode(request, "amazon.titan-embed-text-v2:0")

    assert (ours.target, json.loads(ours.body)) == (path, body)


@pytest.mark.parametrize("tools", [False, True])
async def test_a_complete_answer_decodes_to_what_the_client_reads(sdk: Sdk, tools: bool) -> None:
    read = await asyncio.to_thread(sdk.client.converse, **asking(tools))

    choice = folded([json.dumps(CALLS if tools else ANSWER).encode()], stream=False)

    message = cast("dict[str, Json]", read["output"])["message"]
    assert said(choice) == cast("list[Json]", message["content"])


@pytest.mark.parametrize("tools", [False, True])
async def test_a_stream_decodes_to_what_the_client_reads(sdk: Sdk, tools: bool) -> None:
    read = await asyncio.to_thread(sdk.client.converse_stream, **asking(tools))

    events = await asyncio.to_thread(list, cast("Iterable[dict[str, Json]]", read["stream"]))
    cast("Closes", read["stream"]).close()

    choice = folded(CALLS_STREAM if tools else ANSWER_STREAM, stream=True)
    deltas = [
        cast("Json", one["contentBlockDelta"]["delta"])
        for one in events
        if "contentBlockDelta" in one
    ]
    assert choice.text == "".join(str(delta.get("text", "")) for delta in deltas)
    pieces = [cast("dict[str, str]", delta["toolUse"]) for delta in deltas if "toolUse" in delta]
    calls = "".join(call.arguments for call in choice.tool_calls if call.arguments != "{}")
    assert calls == "".join(piece["input"] for piece in pieces)


def asking(tools: bool) -> Json:
    fields: Json = {"modelId": "m", "messages": [HELLO]}
    return {**fields, "toolConfig": {"tools": [{"toolSpec": SPEC}]}} if tools else fields


def folded(pieces: Iterable[bytes], *, stream: bool) -> Choice:
    fold = Fold()
    fold.add(translate(BEDROCK, chat(stream=stream), pieces))
    (choice,) = fold.answer().choices
    return choice


def said(choice: Choice) -> list[Json]:
    """Return it in Converse's format."""
    thoughts: list[Json] = [
        {"reasoningContent": {"reasoningText": {"text": one.text, "signature": one.signature}}}
        for one in choice.thoughts
    ]
    calls: list[Json] = [
        {"toolUse": {"toolUseId": one.id, "name": one.name, "input": json.loads(one.arguments)}}
        for one in choice.tool_calls
    ]
    return [*thoughts, {"text": choice.text}, *calls]
