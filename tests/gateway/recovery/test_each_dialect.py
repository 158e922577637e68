"""Every dialect that continues an answer is asked in its documented form."""

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from tests.gateway.recovery.continuing import Json, ask, beginning, say
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

WHOLE = "The cat sat \n on the mat — 猫, 🐈 — and slept."
Second = Callable[[Received, Answer], Awaitable[None]]


def last_message(request: Received) -> Json:
    return cast("Sequence[Json]", request.json["messages"])[-1]


def rest(request: Received) -> list[str]:
    begun = beginning(request)
    assert WHOLE.startswith(begun)
    return list(WHOLE[len(begun) :])


async def vllm(request: Received, answer: Answer) -> None:
    if beginning(request):
        assert request.json["continue_final_message"] is True
        assert request.json["add_generation_prompt"] is False
    await say(request, answer, rest(request))


async def sglang(request: Received, answer: Answer) -> None:
    if beginning(request):
        assert request.json["continue_final_message"] is True
    await say(request, answer, rest(request))


async def mistral(request: Received, answer: Answer) -> None:
    """It repeats the beginning."""
    if begun := beginning(request):
        assert last_message(request) == {"role": "assistant", "content": begun, "prefix": True}
    await say(request, answer, list(WHOLE))


async def deepseek(request: Received, answer: Answer) -> None:
    if begun := beginning(request):
        assert request.path == "/second/beta/chat/completions"
        assert last_message(request) == {"role": "assistant", "content": begun, "prefix": True}
    await say(request, answer, rest(request))


async def anthropic(request: Received, answer: Answer) -> None:
    """It refuses a beginning that ends in white space, and one after which nothing is left."""
    last = last_message(request)
    begun = ""
    if last["role"] == "assistant":
        (block,) = cast("Sequence[Json]", last["content"])
        begun = str(block["text"])
    assert begun == begun.rstrip()
    assert WHOLE.startswith(begun)
    start: Json = {
        "type": "message_start",
        "message": {
            "id": "msg_2",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 9, "output_tokens": 1},
        },
    }
    text = {"type": "text", "text": ""}
    deltas = [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": piece},
        }
        for piece in WHOLE[len(begun) :]
    ]
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 5},
    }
    await answer.begin_stream()
    for event in (
        start,
        {"type": "content_block_start", "index": 0, "content_block": text},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        end,
        {"type": "message_stop"},
    ):
        kind = str(event["type"])
        await answer.chunk(f"event: {kind}\ndata: {json.dumps(event)}\n\n".encode())
    await answer.raw(b"0\r\n\r\n")


DIALECTS: dict[str, tuple[str, str, Second]] = {
    "vllm": ("/second/v1", "m", vllm),
    "sglang": ("/second/v1", "m", sglang),
    "mistral": ("/second/v1", "m", mistral),
    "deepseek": ("/second", "m", deepseek),
    "anthropic": ("/second", "claude-sonnet-4-5-20250929", anthropic),
}


def config(adapter: str, url: str, path: str, model: str) -> str:
    return f"""
providers:
  - {{name: first, adapter: openai, base_url: {url}/first, api_key: k}}
  - {{name: second, adapter: {adapter}, base_url: {url}{path}, api_key: k}}
models:
  - name: chat
    policy: in_order
    stream_recovery: continue
    breaker: {{min_requests: 100000}}
    retry: {{attempts: 2, backoff_s: 0, max_backoff_s: 0}}
    backends: [{{provider: first, model: m}}, {{provider: second, model: {model}}}]
"""


class First:
    """Sends the text up to `cut`, a character an event, and breaks off."""

    def __init__(self, second: Second) -> None:
        self.cut = 0
        self.second = second
        self.continued: list[Received] = []

    async def behave(self, request: Received, answer: Answer) -> None:
        if not request.path.startswith("/first"):
            self.continued.append(request)
            await self.second(request, answer)
            return
        await answer.begin_stream()
        for piece in WHOLE[: self.cut]:
            await answer.text(piece)
        answer.close()


@pytest.mark.parametrize("adapter", DIALECTS)
async def test_the_text_is_whole_wherever_the_first_backend_broke_off(
    tmp_path: Path, adapter: str
) -> None:
    path, model, second = DIALECTS[adapter]
    first = First(second)
    async with (
        provider(first.behave) as remote,
        serving(config(adapter, remote.origin, path, model), tmp_path) as gateway,
    ):
        for cut in range(1, len(WHOLE)):
            first.cut = cut
            got = await ask(gateway.url, max_tokens=500)
            assert (got.text, got.error, got.finish, got.roles) == (WHOLE, "", "stop", 1), cut
            assert got.comments == (": continued after upstream_broken",)
        assert len(first.continued) == len(WHOLE) - 1


async def test_a_model_that_refuses_a_beginning_is_not_asked(tmp_path: Path) -> None:
    first = First(anthropic)
    first.cut = 5
    async with (
        provider(first.behave) as remote,
        serving(
            config("anthropic", remote.origin, "/second", "claude-opus-4-6"), tmp_path
        ) as gateway,
    ):
        got = await ask(gateway.url, max_tokens=500)

        assert (got.text, got.error, got.done) == (WHOLE[:5], "upstream_broken", False)
        assert first.continued == []
