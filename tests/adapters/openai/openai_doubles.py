"""Requests, chunks and answers for the tests of the OpenAI dialect."""

from collections.abc import Mapping

import msgspec

from strowger_gateway.adapters.base import Adapter, Endpoint
from strowger_gateway.adapters.openai.adapter import OpenAIAdapter
from strowger_gateway.adapters.testing import translate
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest, GenerateRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret

KEY = "sk-test-0123456789"
HELLO = Message(role="user", content="hello")
CHAT = ChatRequest(model="m", messages=(HELLO,), stream=True)
WHOLE_CHAT = ChatRequest(model="m", messages=(HELLO,))
COMPLETION = CompletionRequest(model="m", prompts=("x",), stream=True)

Json = Mapping[str, object]


def openai(base_url: str = "https://api.openai.com/v1") -> OpenAIAdapter:
    return OpenAIAdapter(Endpoint(name="acme", base_url=base_url, key=Secret(KEY)))


def other() -> OpenAIAdapter:
    """Return the adapter of a server other than OpenAI's own."""
    return openai("http://gpu.test:8000/v1")


def body(adapter: Adapter, request: ChatRequest | CompletionRequest) -> dict[str, object]:
    return msgspec.json.decode(adapter.encode(request, "m1").body, type=dict[str, object])


def sampled(**fields: object) -> ChatRequest:
    return msgspec.structs.replace(
        WHOLE_CHAT, sampling=msgspec.structs.replace(Sampling(), **fields)
    )


def delta(
    fields: Json | None = None, finish: str | None = None, index: int = 0, **choice: object
) -> Json:
    return {
        "id": "c1",
        "model": "m",
        "created": 5,
        "choices": [{"index": index, "delta": fields or {}, "finish_reason": finish, **choice}],
    }


def call(
    arguments: object = None, *, index: int | None = 0, id: object = None, name: str | None = None
) -> Json:
    """Return a delta with one piece of a tool call, without members that are `None`."""
    function = {"name": name, "arguments": arguments}
    piece = {"index": index, "id": id, "function": _given(function)}
    return delta({"tool_calls": [_given(piece)]})


def message(fields: Json, finish: str | None = "stop", **choice: object) -> Json:
    return {"id": "c1", "choices": [{"message": fields, "finish_reason": finish, **choice}]}


def stream(*chunks: Json | str, done: bool = True) -> bytes:
    lines = [
        chunk if isinstance(chunk, str) else "data: " + msgspec.json.encode(chunk).decode()
        for chunk in chunks
    ]
    return "\n\n".join([*lines, "data: [DONE]"] if done else lines).encode() + b"\n\n"


def events(
    raw: bytes, request: GenerateRequest = CHAT, adapter: Adapter | None = None
) -> list[Event]:
    return translate(adapter or other(), request, [raw])


def streamed(*chunks: Json | str, done: bool = True) -> list[Event]:
    return events(stream(*chunks, done=done))


def whole(answer: Json, request: GenerateRequest = WHOLE_CHAT) -> list[Event]:
    return events(msgspec.json.encode(answer), request)


def _given(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}
