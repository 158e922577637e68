"""The scenarios of failoverbench in which a stream breaks off, with `stream_recovery: continue`.

https://github.com/failoverbench/failoverbench (scenarios/catalogue.yaml): sixty words, cut after 40
(S08, S14), silent for 30 s after twenty (S09), an unreadable tenth event (S10), and a fallback
that refuses a beginning of an answer (S14).
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.gateway.recovery.continuing import Client, ask, beginning, say
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

pytestmark = pytest.mark.anyio

WORDS = [f"word{place} " for place in range(59)] + ["end."]
WHOLE = "".join(WORDS)
Behaviour = Callable[[Received, Answer], Awaitable[None]]


async def healthy(request: Received, answer: Answer) -> None:
    begun = beginning(request)
    assert WHOLE.startswith(begun)
    await say(request, answer, WORDS[begun.count(" ") :])


async def without_prefill(request: Received, answer: Answer) -> None:
    """Refuses every conversation whose last message is the assistant's."""
    if beginning(request):
        message = "This model does not support assistant message prefill."
        await answer.json({"error": {"message": message, "type": "invalid_request_error"}}, 400)
    else:
        await healthy(request, answer)


def cut_after(words: int) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        for word in WORDS[:words]:
            await answer.text(word)
        answer.close()

    return behave


def silent_after(words: int, seconds: float) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        for word in WORDS[:words]:
            await answer.text(word)
        await asyncio.wait({asyncio.create_task(answer.gone.wait())}, timeout=seconds)
        answer.close()

    return behave


async def malformed_tenth(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    for place, word in enumerate(WORDS):
        if place == 9:
            await answer.chunk(b'data: {"choices":[{"delta":{"content":"word9 \n\n')
        else:
            await answer.text(word)
    await answer.end_stream()


@asynccontextmanager
async def bench(
    tmp_path: Path, primary: Behaviour, fallback: Behaviour, timeouts: str = "{}"
) -> AsyncGenerator[tuple[str, Provider], None]:
    """Two providers that continue chats, with the gateway's defaults but for the timeouts."""

    async def behave(request: Received, answer: Answer) -> None:
        first = request.path.startswith("/primary")
        await (primary if first else fallback)(request, answer)

    async with provider(behave) as remote:
        config = f"""
providers:
  - {{name: primary, adapter: vllm, base_url: {remote.origin}/primary/v1, timeouts: {timeouts}}}
  - {{name: fallback, adapter: vllm, base_url: {remote.origin}/fallback/v1}}
models:
  - name: chat
    stream_recovery: continue
    backends: [{{provider: primary, model: m}}]
    fallback: [spare]
  - {{name: spare, backends: [{{provider: fallback, model: fb-ok}}]}}
"""
        async with serving(config, tmp_path) as gateway:
            yield gateway.url, remote


def complete(got: Client) -> bool:
    return (got.text, got.error, got.finish, got.done) == (WHOLE, "", "stop", True)


async def test_s08_a_cut_stream_is_completed(tmp_path: Path) -> None:
    async with bench(tmp_path, cut_after(40), healthy) as (url, _):
        assert complete(await ask(url))


async def test_s09_a_stalled_stream_is_completed(tmp_path: Path) -> None:
    stall = silent_after(20, 30.0)
    async with bench(tmp_path, stall, healthy, "{between_tokens_s: 0.3}") as (url, _):
        assert complete(await ask(url))


@pytest.mark.nightly
async def test_s09_is_completed_at_its_own_times(tmp_path: Path) -> None:
    """A stall of 30 s with our defaults, within the 45 s that the benchmark allows."""
    async with bench(tmp_path, silent_after(20, 30.0), healthy) as (url, _):
        began = time.monotonic()

        got = await ask(url)

        assert complete(got)
        assert time.monotonic() - began < 45


async def test_s10_a_stream_with_a_malformed_event_is_completed(tmp_path: Path) -> None:
    async with bench(tmp_path, malformed_tenth, healthy) as (url, _):
        assert complete(await ask(url))


async def test_s14_a_fallback_that_refuses_hides_no_failure(tmp_path: Path) -> None:
    """The primary is asked again, because it may continue; it breaks off each time."""

    async def dead(request: Received, answer: Answer) -> None:
        if beginning(request):
            await answer.json({"error": {"message": "gone"}}, 503)
        else:
            await cut_after(40)(request, answer)

    async with bench(tmp_path, dead, without_prefill) as (url, remote):
        got = await ask(url)

        assert (got.text, got.error) == ("".join(WORDS[:40]), "upstream_broken")
        assert not got.done
        assert any("/fallback" in request.path for request in remote.requests)
