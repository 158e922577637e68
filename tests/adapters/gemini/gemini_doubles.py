"""Requests and answers for the tests of the Gemini adapter."""

import json

import msgspec

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.gemini.adapter import GeminiAdapter
from strowger_gateway.adapters.testing import request_for, translate
from strowger_gateway.schemas.events import Event
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest, EmbeddingsRequest
from strowger_gateway.schemas.secret import Secret
from strowger_gateway.schemas.tasks.task import Unsampled
from tests.adapters.traffic import fixture

Json = dict[str, object]

STUDIO_URL = "https://generativelanguage.googleapis.com/v1beta"
VERTEX_URL = "https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google"
MODEL = "gemini-2.5-flash"
NEWER = "gemini-3-flash-preview"
HELLO = Message(role="user", content="hello")
WHOLE = ChatRequest(model="m", messages=(HELLO,))
STREAM = ChatRequest(model="m", messages=(HELLO,), stream=True)


def adapter(base_url: str = STUDIO_URL) -> GeminiAdapter:
    return GeminiAdapter(Endpoint(name="google", base_url=base_url, key=Secret("a-secret-key")))


GEMINI = adapter()


def chat(*messages: Message, **fields: object) -> ChatRequest:
    return msgspec.structs.replace(WHOLE, messages=messages or (HELLO,), **fields)


def body(request: ChatRequest | EmbeddingsRequest, model: str = MODEL) -> Json:
    return msgspec.json.decode(GEMINI.encode(request, model).body, type=Json)


def candidate(*parts: Json, **fields: object) -> Json:
    """Return a frame, or a complete answer, with one candidate."""
    said = {"content": {"role": "model", "parts": list(parts)}, **fields}
    return {"candidates": [said], "modelVersion": MODEL, "responseId": "r1"}


def whole(frame: Json) -> list[Event]:
    return translate(GEMINI, WHOLE, [json.dumps(frame).encode()])


def streamed(*frames: Json) -> list[Event]:
    data = b"".join(b"data: " + json.dumps(one).encode() + b"\r\n\r\n" for one in frames)
    return translate(GEMINI, STREAM, [data])


def read(name: str) -> list[Event]:
    case = fixture(f"gemini/{name}")
    request = request_for(case)
    assert not isinstance(request, Unsampled)
    return translate(GEMINI, request, [case.body])
