"""A vendor that sends anything is alive: a model may think for longer than it may be silent."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping

import httpx
import pytest
from msgspec import Struct

from strowger_gateway.adapters.base import Endpoint, Outbound
from strowger_gateway.adapters.registry import Registry
from strowger_gateway.gateway.backends.upstream.base import Call
from strowger_gateway.gateway.backends.upstream.http import HttpUpstream
from strowger_gateway.gateway.backends.upstream.sending import UNWATCHED, Sending
from strowger_gateway.gateway.backends.upstream.transport import Reply
from strowger_gateway.gateway.config.schema.connection import Timeouts
from strowger_gateway.gateway.platform.clock import now
from strowger_gateway.schemas.errors import UpstreamSilent, UpstreamTimeout
from strowger_gateway.schemas.holdings import ANONYMOUS, LEVEL, Holder
from strowger_gateway.schemas.messages import Message
from strowger_gateway.schemas.requests import ChatRequest
from strowger_gateway.schemas.sampling import Sampling
from strowger_gateway.schemas.secret import Secret
from tests.gateway.routing.failures.fault_tasks import TASKS
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

Json = Mapping[str, object]
NOTHING: list[object] = []
EVERY_S, SILENCE_S = 0.15, 1.0
SIGNS = 8
"""Sent one by one: together they take longer than any silence may."""


def sse(*events: Json, named: bool = False) -> bytes:
    lines = [
        (f"event: {one['type']}\n" if named else "") + f"data: {json.dumps(one)}\n\n"
        for one in events
    ]
    return "".join(lines).encode()


class Stream(Struct, frozen=True, kw_only=True):
    """A vendor's stream in parts. sign: what it sends while it thinks."""

    begin: bytes
    sign: bytes
    text: bytes
    end: bytes


def _claude() -> Stream:
    usage = {"input_tokens": 7, "output_tokens": 1}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": NOTHING,
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    proof = {"type": "signature_delta", "signature": "c2ln"}
    word = {"type": "text_delta", "text": "hel"}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    return Stream(
        begin=sse(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": thinking},
            named=True,
        ),
        sign=sse({"type": "ping"}, named=True),
        text=sse(
            {"type": "content_block_delta", "index": 0, "delta": proof},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "text", "text": ""},
            },
            {"type": "content_block_delta", "index": 1, "delta": word},
            named=True,
        ),
        end=sse(
            {"type": "content_block_stop", "index": 1},
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
            named=True,
        ),
    )


def _openai() -> Stream:
    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}

    return Stream(
        begin=sse(chunk({"role": "assistant", "content": ""})),
        sign=b": OPENROUTER PROCESSING\n\n",
        text=sse(chunk({"content": "hel"})),
        end=sse(chunk({"content": "lo"}), chunk({}, "stop")) + b"data: [DONE]\n\n",
    )


def _responses() -> Stream:
    bare = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": NOTHING}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
    said = {**item, "content": [{"type": "output_text", "text": "hel", "annotations": NOTHING}]}
    at: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return Stream(
        begin=sse(
            {"type": "response.created", "response": {**bare, "status": "in_progress"}},
            {"type": "response.in_progress", "response": {**bare, "status": "in_progress"}},
            named=True,
        ),
        sign=sse({"type": "keepalive", "sequence_number": 3}, named=True),
        text=sse(
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**item, "content": NOTHING},
            },
            {"type": "response.output_text.delta", **at, "delta": "hel", "logprobs": NOTHING},
            named=True,
        ),
        end=sse(
            {"type": "response.output_item.done", "output_index": 0, "item": said},
            {
                "type": "response.completed",
                "response": {**bare, "status": "completed", "output": [said]},
            },
            named=True,
        ),
    )


def _gemini() -> Stream:
    def part(text: str, finish: str | None = None) -> Json:
        parts = {"role": "model", "parts": [{"text": text}]}
        one = {"index": 0, "content": parts, **({} if finish is None else {"finishReason": finish})}
        return {"candidates": [one], "modelVersion": "m"}

    return Stream(
        begin=b": hello\n\n",
        sign=b": thinking\n\n",
        text=sse(part("hel")),
        end=sse(part("lo", "STOP")),
    )


STREAMS = {
    "anthropic": _claude(),
    "openai": _openai(),
    "openai-responses": _responses(),
    "gemini": _gemini(),
}
CASES = [f"{adapter}-{case}" for adapter in STREAMS for case in ("first", "later")]


async def behave(request: Received, answer: Answer) -> None:
    """Show signs of life before the text, or after its beginning; or nothing, or a 504."""
    place = request.path.split("/")[1]
    if place == "timeout":
        await answer.json({"error": {"message": "upstream request timeout"}}, 504)
        return
    if place.startswith("mute"):
        await answer.gone.wait()
        return
    adapter, _, case = place.rpartition("-")
    stream = STREAMS[adapter]
    await answer.begin_stream()
    await answer.chunk(stream.begin)
    if case == "later":
        await answer.chunk(stream.text)
    for _ in range(SIGNS):
        await asyncio.sleep(EVERY_S)
        await answer.chunk(stream.sign)
    if case == "first":
        await answer.chunk(stream.text)
    await answer.chunk(stream.end)
    await answer.raw(b"0\r\n\r\n")


def config(origin: str) -> str:
    lines = ["providers:"]
    names = [*CASES, "mute-a", "mute-b", "timeout"]
    for name in names:
        adapter = name.rpartition("-")[0]
        adapter = adapter if adapter in STREAMS else "openai"
        path = f"{origin}/{name}{'/v1' if adapter.startswith('openai') else ''}"
        silence = SILENCE_S if name in CASES else 0.05
        lines.append(
            f"  - {{name: {name}, adapter: {adapter}, base_url: {path}, api_key: k, "
            f"timeouts: {{silence_s: {silence}, first_token_s: 20, between_tokens_s: 20}}}}"
        )
    retry = "retry: {attempts: 5, backoff_s: 0.01}"
    lines.append("models:")
    lines += [
        f"  - {{name: {one}, {retry}, backends: [{{provider: {one}, model: m}}]}}" for one in names
    ]
    both = ", ".join(f"{{provider: mute-{one}, model: m}}" for one in "ab")
    lines.append(f"  - {{name: both, policy: in_order, {retry}, backends: [{both}]}}")
    return "\n".join(lines)


@pytest.fixture(scope="module")
async def remote() -> AsyncGenerator[Provider, None]:
    async with provider(behave) as running:
        yield running


@pytest.fixture(scope="module")
async def gateway(
    remote: Provider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Serving, None]:
    async with serving(config(remote.origin), tmp_path_factory.mktemp("run")) as running:
        yield running


async def ask(gateway: Serving, task: str, model: str) -> httpx.Response:
    return await TASKS[task].ask(gateway.url, model)


@pytest.mark.parametrize("task", ["chat-stream", "messages-stream", "responses-stream"])
async def test_any_byte_of_a_vendor_shows_that_it_is_alive(gateway: Serving, task: str) -> None:
    found = await asyncio.gather(*(ask(gateway, task, one) for one in CASES))

    lines = {one.model: one for one in gateway.access_lines()}
    shown = {
        name: (one.status_code, "hel" in one.text, lines[name].error, len(lines[name].attempts))
        for name, one in zip(CASES, found, strict=True)
    }
    assert shown == dict.fromkeys(CASES, (200, True, "", 1))


@pytest.mark.parametrize(
    ("model", "expected"),
    [("mute-a", {"mute-a": 2}), ("both", {"mute-a": 2, "mute-b": 2}), ("timeout", {"timeout": 5})],
)
async def test_a_backend_that_used_up_a_limit_of_time_is_asked_once_more_at_most(
    gateway: Serving, remote: Provider, model: str, expected: dict[str, int]
) -> None:
    """Each such wait lasts minutes. A vendor's own 504 does not."""
    before = len(remote.requests)

    answer = await ask(gateway, "chat-stream", model)

    asked = [one.path.split("/")[1] for one in remote.requests[before:]]
    assert answer.status_code == 504
    assert {name: asked.count(name) for name in set(asked)} == expected


class Recorder:
    """A transport on which nothing arrives in time; it notes until when that is."""

    def __init__(self) -> None:
        self.head_by = 0.0

    async def exchange(
        self,
        outbound: Outbound,
        *,
        connect_by: float,
        head_by: float,
        lines: bytes = b"",
        sending: Sending = UNWATCHED,
        holder: Holder = ANONYMOUS,
        level: int = LEVEL,
    ) -> Reply:
        self.head_by = head_by
        raise UpstreamSilent("the answer did not begin in time", upstream="p")

    async def aclose(self) -> None: ...


async def waits(
    timeouts: Timeouts, *, reasons: bool, stream: bool = True, most_tokens: int | None = None
) -> float:
    """Seconds that a request waits for the first byte."""
    endpoint = Endpoint(name="p", base_url="https://p.test/v1", key=Secret("k"))
    transport = Recorder()
    upstream = HttpUpstream("p", Registry(()).build("openai", endpoint), transport, timeouts)
    request = ChatRequest(
        model="m",
        messages=(Message(role="user", content="hi"),),
        stream=stream,
        sampling=Sampling(max_tokens=most_tokens),
    )
    began = now()
    call = Call(model="m", deadline=began + 7200, request_id="r", reasons=reasons)
    with pytest.raises(UpstreamTimeout):
        await anext(upstream.generate(request, call))
    return round(transport.head_by - began)


@pytest.mark.parametrize(
    ("timeouts", "usual", "reasoning"),
    [
        (Timeouts(), 90, 300),
        (Timeouts(first_token_s=20), 20, 20),
        (Timeouts(first_token_s=500), 500, 500),
        (Timeouts(silence_s=45), 45, 45),
        (Timeouts(silence_s=45, first_token_s=500), 45, 45),
        (Timeouts(total_s=60), 60, 60),
    ],
)
async def test_models_that_reason_may_be_silent_for_longer(
    timeouts: Timeouts, usual: float, reasoning: float
) -> None:
    assert await waits(timeouts, reasons=False) == usual
    assert await waits(timeouts, reasons=True) == reasoning


@pytest.mark.parametrize(
    ("timeouts", "most_tokens", "usual", "reasoning"),
    [
        (Timeouts(), None, 480, 540),
        (Timeouts(), 16, 128, 308),
        (Timeouts(), 400, 320, 500),
        (Timeouts(), 100_000, 480, 540),
        (Timeouts(first_token_s=20, silence_s=5), 16, 128, 308),
        (Timeouts(silence_s=400), 16, 408, 408),
        (Timeouts(first_byte_s=30), 16, 30, 30),
        (Timeouts(first_byte_s=580), None, 580, 580),
        (Timeouts(first_byte_s=30, total_s=900), None, 30, 30),
        (Timeouts(total_s=900), 16, 900, 900),
        (Timeouts(total_s=60, silence_s=5), None, 60, 60),
    ],
)
async def test_a_whole_answer_may_take_as_long_as_its_model_may_write_and_leaves_time_for_another(
    timeouts: Timeouts, most_tokens: int | None, usual: float, reasoning: float
) -> None:
    """Servers send nothing of it before its end, and a request has ten minutes."""
    for expected, reasons in ((usual, False), (reasoning, True)):
        waited = await waits(timeouts, reasons=reasons, stream=False, most_tokens=most_tokens)
        assert waited == expected
