"""Large answers of a backend: bounded, measured, decoded in threads, their memory claimed."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest

from strowger_gateway.schemas.measured_json import ANSWER, EVENT
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Json, Received, chat_body, delta_body, provider

pytestmark = pytest.mark.anyio

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
BODY_OF = {
    CHAT: {"model": "chat", "messages": [{"role": "user", "content": "hi"}]},
    EMBEDDINGS: {"model": "chat", "input": ["hi"]},
}
VECTOR = {"object": "embedding", "index": 0, "embedding": [0.5] * 20_000}


class Backend:
    """Answers with `body`, as a whole or as the last event of a stream, after `pieces` of text."""

    def __init__(self) -> None:
        self.body: object = chat_body("hello")
        self.got = 0
        self.pieces = ["hello"]

    async def __call__(self, request: Received, answer: Answer) -> None:
        self.got += 1
        if not request.json.get("stream"):
            await answer.json(self.body)
            return
        await answer.begin_stream()
        for piece in self.pieces:
            await answer.text(piece)
        await answer.event(self.body)
        await answer.end_stream()


@asynccontextmanager
async def gateway(
    tmp_path: Path, setting: str = "", more: str = ""
) -> AsyncGenerator[tuple[Serving, Backend]]:
    """setting: of both providers."""
    backend = Backend()
    async with provider(backend) as first, provider(backend) as second:
        config = f"""
providers:
  - {{name: one, adapter: openai, base_url: "{first.base_url}", api_key: k{setting}}}
  - {{name: two, adapter: openai, base_url: "{second.base_url}", api_key: k{setting}}}
models:
  - name: chat
    policy: in_order
    backends: [{{provider: one, model: m}}, {{provider: two, model: m}}]
{more}
"""
        async with serving(config, tmp_path) as running:
            yield running, backend


async def ask(running: Serving, path: str = CHAT, **more: object) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(running.url + path, json={**BODY_OF[path], **more})


async def test_an_answer_over_the_limit_is_refused_by_the_setting_and_blames_nobody(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path, ", max_answer_bytes: 100KiB") as (running, backend):
        backend.body = chat_body("x" * 60_000)
        assert (await ask(running)).status_code == 200
        backend.body = chat_body("x" * 110_000)
        backend.got = 0
        for _ in range(8):
            answer = await ask(running)

            assert answer.status_code == 502
            assert "one: the answer is over 102400 bytes (providers[].max_answer_bytes)" in (
                answer.text
            )
        assert backend.got == 8  # no other attempt may answer shorter
        backend.body = chat_body("hello")
        answer = await ask(running)
        assert answer.status_code == 200
        assert answer.headers["x-gateway-backend"].startswith("one")
        assert running.state.shares.buffered == 0


async def test_a_streamed_answer_may_have_four_times_as_much(tmp_path: Path) -> None:
    async with gateway(tmp_path, ", max_answer_bytes: 100KiB") as (running, backend):
        for pieces, ends in ((10, False), (15, True)):
            backend.pieces = ["x" * 30_000] * pieces
            answer = await ask(running, stream=True)

            too_long = "one: the streamed answer is too long (providers[].max_answer_bytes)"
            assert answer.status_code == 200
            assert (too_long in answer.text) == ends


async def test_an_event_over_the_limit_opens_no_circuit(tmp_path: Path) -> None:
    async with gateway(tmp_path, ", max_answer_bytes: 100KiB") as (running, backend):
        backend.pieces = ["x" * 150_000]
        for _ in range(8):
            answer = await ask(running, stream=True)

            assert "a frame is over 102400 bytes" in answer.text
        backend.pieces = ["hello"]
        answer = await ask(running, stream=True)
        assert "hello" in answer.text
        assert answer.headers["x-gateway-backend"].startswith("one")


async def test_an_answer_with_vectors_may_be_larger_by_its_inputs(tmp_path: Path) -> None:
    async with gateway(tmp_path, ", max_answer_bytes: 10KiB") as (running, backend):
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        backend.body = {"object": "list", "model": "m", "data": [VECTOR], "usage": usage}
        answer = await ask(running, EMBEDDINGS)

        assert answer.status_code == 200
        assert answer.json()["data"][0]["embedding"] == [0.5] * 20_000
        assert running.state.shares.buffered == 0


@pytest.mark.parametrize("surface", ["/v1/messages", "/v1/responses", CHAT])
async def test_a_large_answer_arrives_on_every_surface(tmp_path: Path, surface: str) -> None:
    body: dict[str, object] = {"model": "chat", "max_tokens": 9, "messages": [
        {"role": "user", "content": "hi"}]}  # fmt: skip
    if surface == "/v1/responses":
        body = {"model": "chat", "input": "hi"}
    async with gateway(tmp_path) as (running, backend), httpx.AsyncClient(timeout=60) as client:
        backend.body = chat_body("漢" * 200_000)
        answer = await client.post(running.url + surface, json=body)

        assert answer.status_code == 200
        assert "漢" * 200_000 in json.dumps(answer.json(), ensure_ascii=False)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_with_too_many_values_is_refused_before_it_is_decoded(
    tmp_path: Path, *, stream: bool
) -> None:
    most = EVENT if stream else ANSWER
    async with gateway(tmp_path) as (running, backend):
        backend.body = {**chat_body("hello"), "citations": [[]] * most.containers}
        answer = await ask(running, stream=stream)

        if stream:
            assert "hello" in answer.text
        else:
            assert answer.status_code == 502
        assert f"more than {most.containers} objects and lists" in answer.text
        assert running.state.shares.buffered == 0


LIKELY = {"token": "the", "logprob": -0.5, "bytes": [116, 104, 101]}
TOKENS: list[Json] = [{**LIKELY, "top_logprobs": [LIKELY] * 20}] * (ANSWER.fields // 60)


def likely(body: Json, tokens: list[Json]) -> Json:
    """The body, with log probabilities."""
    (choice,) = cast("list[Json]", body["choices"])
    return {**body, "choices": [{**choice, "logprobs": {"content": tokens, "refusal": None}}]}


async def test_log_probabilities_of_a_long_answer_are_not_too_many_values(tmp_path: Path) -> None:
    async with gateway(tmp_path) as (running, backend):
        backend.body = likely(chat_body("the" * len(TOKENS)), TOKENS)
        answer = await ask(running, logprobs=True, top_logprobs=20)

        assert answer.status_code == 200
        assert answer.json()["choices"][0]["logprobs"]["content"] == TOKENS
        assert running.state.shares.buffered == 0


async def test_log_probabilities_of_one_event_are_not_too_many_values(tmp_path: Path) -> None:
    async with gateway(tmp_path) as (running, backend):
        backend.body = likely(delta_body({"content": "the" * len(TOKENS)}, "stop"), TOKENS)
        answer = await ask(running, stream=True, logprobs=True, top_logprobs=20)

        assert answer.text.count('"top_logprobs"') == len(TOKENS)
        assert answer.text.endswith("data: [DONE]\n\n")


async def test_log_probabilities_that_cannot_be_read_end_the_answer(tmp_path: Path) -> None:
    async with gateway(tmp_path) as (running, backend):
        backend.body = likely(chat_body("the"), [{"token": 7}])
        answer = await ask(running, logprobs=True)

        assert answer.status_code == 502
        assert "cannot read the answer" in answer.text


async def test_the_memory_of_answers_is_claimed(tmp_path: Path) -> None:
    server = "server: {max_body_bytes: 100000, max_buffered_bytes: 150000}"
    async with gateway(tmp_path, more=server) as (running, backend):
        backend.body = chat_body("x" * 200_000)
        answer = await ask(running)

        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert "too many bodies of requests and answers are in memory" in answer.text
        assert running.state.shares.buffered == 0
        backend.body = chat_body("x" * 100_000)
        answers = await asyncio.gather(*[ask(running) for _ in range(3)])
        assert {one.status_code for one in answers} <= {200, 503}
        assert running.state.shares.buffered == 0
