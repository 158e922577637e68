"""Every dialect that continues an answer is asked in its documented form."""

import json
from collections.abc import Awaitable, Callable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import cast
from urllib.parse import unquote

import pytest

from tests.gateway.routing.recovery.continuing import Json, ask, beginning, say
from tests.gateway.serving import serving
from tests.stand_ins.bedrock_server import delta, ends, starts, stops
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


async def vertex(request: Received, answer: Answer) -> None:
    """Anthropic's answer in Google's frame."""
    assert request.path.endswith("/models/claude-sonnet-4-5@20250929:streamRawPredict")
    assert request.json["anthropic_version"] == "vertex-2023-10-16"
    await anthropic(request, answer)


async def bedrock(request: Received, answer: Answer) -> None:
    """As Anthropic, in AWS's event stream."""
    assert unquote(request.path).endswith(f"/model/{ON_BEDROCK}/converse-stream")
    last = last_message(request)
    begun = ""
    if last["role"] == "assistant":
        (block,) = cast("Sequence[Json]", last["content"])
        begun = str(block["text"])
    assert begun == begun.rstrip()
    assert WHOLE.startswith(begun)
    await begin_event_stream(answer)
    await answer.chunk(b"".join(messages(WHOLE[len(begun) :])))
    await answer.raw(b"0\r\n\r\n")


def messages(text: str) -> Sequence[bytes]:
    """Of a stream of Bedrock's, with a character in each delta."""
    return (starts(), *(delta(0, {"text": one}) for one in text), stops(0), *ends("end_turn"))


async def begin_event_stream(answer: Answer) -> None:
    await answer.raw(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\n"
        b"transfer-encoding: chunked\r\n\r\n"
    )


ON_BEDROCK = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
ON_VERTEX = "/second/v1/projects/p/locations/global/publishers/anthropic"
DIALECTS: dict[str, tuple[str, str, Second]] = {
    "vllm": ("/second/v1", "m", vllm),
    "sglang": ("/second/v1", "m", sglang),
    "mistral": ("/second/v1", "m", mistral),
    "deepseek": ("/second", "m", deepseek),
    "anthropic": ("/second", "claude-sonnet-4-5-20250929", anthropic),
    "vertex-anthropic": (ON_VERTEX, "claude-sonnet-4-5@20250929", vertex),
    "bedrock": ("/second", ON_BEDROCK, bedrock),
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
    backends: [{{provider: first, model: m}}, {{provider: second, model: "{model}"}}]
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
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.nightly)])
async def test_the_text_is_whole_wherever_the_first_backend_broke_off(
    tmp_path: Path, adapter: str, every: int
) -> None:
    """After every third character by day, and after every one at night."""
    path, model, second = DIALECTS[adapter]
    first = First(second)
    async with (
        provider(first.behave) as remote,
        serving(config(adapter, remote.origin, path, model), tmp_path) as gateway,
    ):
        places = range(1, len(WHOLE), every)
        for cut in places:
            first.cut = cut
            got = await ask(gateway.url, max_tokens=500)
            assert (got.text, got.error, got.finish, got.roles) == (WHOLE, "", "stop", 1), cut
            assert got.comments == (": continued after upstream_broken",)
        assert len(first.continued) == len(places)


async def test_a_stream_of_bedrock_is_continued_wherever_it_broke_off(tmp_path: Path) -> None:
    """Between two of its messages, and inside one."""
    whole = b"".join(messages(WHOLE))
    ends_at = list(accumulate(len(one) for one in messages(WHOLE)))
    inside = [(one + other) // 2 for one, other in pairwise(ends_at)]
    cut = 0

    async def behave(request: Received, answer: Answer) -> None:
        if not request.path.startswith("/first"):
            await vllm(request, answer)
            return
        await begin_event_stream(answer)
        await answer.chunk(whole[:cut])
        answer.close()

    async with provider(behave) as remote:
        text = config("vllm", remote.origin, "/second/v1", "m")
        text = text.replace("adapter: openai", "adapter: bedrock")
        async with serving(text, tmp_path) as gateway:
            for cut in sorted([*ends_at[1:-3], *inside[1:-3]]):
                got = await ask(gateway.url, max_tokens=500)
                assert (got.text, got.error, got.finish, got.roles) == (WHOLE, "", "stop", 1), cut
                assert got.comments == (": continued after upstream_broken",)


@pytest.mark.parametrize(
    ("adapter", "path", "model"),
    [
        ("anthropic", "/second", "claude-opus-4-6"),
        ("vertex-anthropic", ON_VERTEX, "claude-opus-4-6"),
        ("bedrock", "/second", "us.anthropic.claude-opus-4-6-v1"),
        ("bedrock", "/second", "us.meta.llama4-scout-17b-instruct-v1:0"),
    ],
)
async def test_a_model_that_refuses_a_beginning_is_not_asked(
    tmp_path: Path, adapter: str, path: str, model: str
) -> None:
    first = First(anthropic)
    first.cut = 5
    async with (
        provider(first.behave) as remote,
        serving(config(adapter, remote.origin, path, model), tmp_path) as gateway,
    ):
        got = await ask(gateway.url, max_tokens=500)

        assert (got.text, got.error, got.done) == (WHOLE[:5], "upstream_broken", False)
        assert first.continued == []
