"""A server that keeps opening choices, calls or blocks cannot fill the gateway's memory."""

import json
from collections.abc import Callable, Iterator

import pytest

from strowger_gateway.adapters.base import Endpoint
from strowger_gateway.adapters.decoder_limits import BLOCKS, CHOICES, TOOLS
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.schemas.errors import UpstreamBroken
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling

Frames = Callable[[int], Iterator[tuple[str, object]]]
REGISTRY = Registry(())


def chat(n: int = 1) -> ChatRequest:
    turn = Message(role="user", content="hi")
    return ChatRequest(model="m", messages=(turn,), stream=True, sampling=Sampling(n=n))


def openai_choices(at: int) -> Iterator[tuple[str, object]]:
    choice = {"index": at, "delta": {"content": "x"}}
    yield "", {"id": "c", "model": "m", "created": 1, "choices": [choice]}


def openai_calls(at: int) -> Iterator[tuple[str, object]]:
    call = {"index": at, "id": f"call_{at}", "function": {"name": "look", "arguments": ""}}
    choice = {"index": 0, "delta": {"tool_calls": [call]}}
    yield "", {"id": "c", "model": "m", "created": 1, "choices": [choice]}


def anthropic_blocks(at: int) -> Iterator[tuple[str, object]]:
    if at == 0:
        usage = {"input_tokens": 1, "output_tokens": 1}
        content: list[object] = []
        message = {"id": "m", "model": "m", "content": content, "usage": usage}
        yield "message_start", {"type": "message_start", "message": message}
    block = {"type": "text", "text": "x"}
    yield (
        "content_block_start",
        {"type": "content_block_start", "index": at, "content_block": block},
    )


def gemini_candidates(at: int) -> Iterator[tuple[str, object]]:
    content = {"role": "model", "parts": [{"text": "x"}]}
    yield "", {"candidates": [{"index": at, "content": content}]}


HOSTILE: dict[str, tuple[str, Frames, int]] = {
    "choices": ("openai", openai_choices, CHOICES),
    "tool calls": ("openai", openai_calls, TOOLS),
    "blocks": ("anthropic", anthropic_blocks, BLOCKS),
    "candidates": ("gemini", gemini_candidates, CHOICES),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_answer_with_ever_more_of_them_is_broken(what: str) -> None:
    name, frames, most = HOSTILE[what]
    adapter = REGISTRY.build(name, Endpoint(name="far", base_url="https://far.test/v1"))
    decoder = adapter.decoder(chat())

    def feed(at: int) -> None:
        for event, body in frames(at):
            decoder.feed(event, json.dumps(body).encode())

    for at in range(most):
        feed(at)
    with pytest.raises(UpstreamBroken, match=f"over {most} {what}"):
        feed(most)


def test_as_many_choices_as_were_requested_are_accepted() -> None:
    adapter = REGISTRY.build("openai", Endpoint(name="far", base_url="https://far.test/v1"))
    decoder = adapter.decoder(chat(n=40))

    for at in range(40):
        for event, body in openai_choices(at):
            assert decoder.feed(event, json.dumps(body).encode())
