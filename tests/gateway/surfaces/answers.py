"""Renderers of the OpenAI surface for tests, and parsers of their output."""

import msgspec
from msgspec import Raw
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from strowger_gateway.gateway.surfaces.openai.chat_render import ChatRenderer, ReasoningNames
from strowger_gateway.gateway.surfaces.openai.completion_render import CompletionRenderer
from strowger_gateway.schemas.answers import Answer, Fold
from strowger_gateway.schemas.events import Event, Finished, Started
from strowger_gateway.schemas.requests import ChatRequest, CompletionRequest

CREATED = 1700000000
STOP = Finished(reason="stop")


def chat_renderer(
    *, include_usage: bool = False, reasoning: ReasoningNames = "both"
) -> ChatRenderer:
    request = ChatRequest(model="asked", messages=(), stream=True, include_usage=include_usage)
    return ChatRenderer(request, id="chatcmpl-1", created=CREATED, reasoning=reasoning)


def completion_renderer(*, include_usage: bool = False) -> CompletionRenderer:
    request = CompletionRequest(
        model="asked", prompts=("x",), stream=True, include_usage=include_usage
    )
    return CompletionRenderer(request, id="cmpl-1", created=CREATED)


def folded(*events: Event) -> Answer:
    fold = Fold()
    fold.add(events)
    return fold.answer()


def started(**extra: bytes) -> Started:
    return Started(model="ran", extra={name: Raw(value) for name, value in extra.items()})


def payloads(data: bytes) -> list[bytes]:
    """What the `data:` lines carry. Fails unless every frame is exactly one such line."""
    if not data:
        return []
    assert data.endswith(b"\n\n")
    frames = data[:-2].split(b"\n\n")
    assert all(frame.startswith(b"data: ") for frame in frames)
    assert not any(b"\n" in frame or b"\r" in frame for frame in frames)
    return [frame[6:] for frame in frames]


def decoded(data: bytes) -> list[object]:
    return [msgspec.json.decode(payload) for payload in payloads(data) if payload != b"[DONE]"]


def chunks(data: bytes) -> list[ChatCompletionChunk]:
    """Every chunk as the official client reads it, strictly."""
    return [
        ChatCompletionChunk.model_validate_json(payload, strict=True)
        for payload in payloads(data)
        if payload != b"[DONE]"
    ]


def chat_stream(*events: Event) -> list[ChatCompletionChunk]:
    return chunks(chat_renderer().events(events))


def chat_answer(*events: Event) -> ChatCompletion:
    return ChatCompletion.model_validate_json(chat_renderer().answer(folded(*events)), strict=True)


def completion_answer(*events: Event) -> Completion:
    return Completion.model_validate_json(
        completion_renderer().answer(folded(*events)), strict=True
    )
