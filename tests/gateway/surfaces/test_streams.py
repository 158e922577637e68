"""Streams at the client: unbuffered, kept alive, and never falsely complete."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import openai
import pytest

from tests.gateway.commanded import SOON_S
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, delta_body, provider

pytestmark = pytest.mark.anyio

HELLO = {"model": "chat", "messages": [{"role": "user", "content": "hi"}], "stream": True}


async def next_data(lines: AsyncIterator[str]) -> str:
    """The next line that says something, the one that only names the role apart."""
    async for line in lines:
        if line and '"role"' not in line:
            return line
    raise AssertionError("the stream ended")


async def test_each_chunk_leaves_before_the_next_arrives(tmp_path: Path) -> None:
    """The provider only goes on once the client has read what was sent: buffering would hang."""
    read = asyncio.Semaphore(0)

    async def hand_in_hand(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        for number in range(20):
            await answer.text(f"t{number}")
            await read.acquire()
        await answer.end_stream()

    async with (
        provider(hand_in_hand) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        client.stream("POST", "/v1/chat/completions", json=HELLO) as stream,
    ):
        lines = stream.aiter_lines()
        for number in range(20):
            assert f'"t{number}"' in await asyncio.wait_for(next_data(lines), SOON_S)
            read.release()

    assert stream.headers["x-accel-buffering"] == "no"
    assert stream.headers["cache-control"] == "no-cache, no-transform"
    assert stream.headers["content-type"].startswith("text/event-stream")


async def test_what_comes_in_one_packet_with_a_failure_is_shown_before_it(tmp_path: Path) -> None:
    async def fails(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("hel")
        await asyncio.sleep(0.1)
        last = json.dumps(delta_body({"content": "lo"})).encode()
        await answer.chunk(b"data: %b\n\ndata: {broken\n\n" % last)
        await answer.gone.wait()

    async with (
        provider(fails) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        answer = await client.post("/v1/chat/completions", json=HELLO)

    first, second, error = [line for line in answer.text.split("\n\n") if line][-3:]
    assert ('"hel"' in first, '"lo"' in second) == (True, True)
    assert "upstream_broken" in error


async def test_the_official_client_raises_on_a_failure_after_the_first_byte(
    tmp_path: Path,
) -> None:
    async def fails(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("hel")
        await asyncio.sleep(0.1)
        await answer.event({"error": {"message": "engine died", "code": 500}})
        await answer.raw(b"0\r\n\r\n")

    async with (
        provider(fails) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0) as client,
    ):
        stream = await client.chat.completions.create(
            model="chat", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        with pytest.raises(openai.APIError, match="engine died"):
            async for _ in stream:
                pass


async def test_the_official_client_gets_the_true_status_before_the_first_byte(
    tmp_path: Path,
) -> None:
    async def busy(request: Received, answer: Answer) -> None:
        await answer.json({"error": {"message": "later"}}, 429, {"retry-after": "9"})

    async with (
        provider(busy) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0) as client,
    ):
        with pytest.raises(openai.RateLimitError) as caught:
            await client.chat.completions.create(
                model="chat", messages=[{"role": "user", "content": "hi"}], stream=True
            )

    assert caught.value.response.headers["retry-after"] == "9"


@pytest.mark.parametrize("asked", [False, True])
async def test_usage_reaches_the_client_only_on_request_and_the_records_always(
    asked: bool, tmp_path: Path
) -> None:
    options = {"stream_options": {"include_usage": True}} if asked else {}
    async with (
        provider() as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
    ):
        answer = await client.post("/v1/chat/completions", json={**HELLO, **options})
        (line,) = gateway.access_lines()

    frames = [json.loads(part[6:]) for part in answer.text.split("\n\n")[:-2]]
    assert [frame["usage"]["total_tokens"] for frame in frames if frame.get("usage")] == (
        [10] if asked else []
    )
    assert asked or all("usage" not in frame for frame in frames)
    assert remote.requests[0].json["stream_options"] == {"include_usage": True}
    assert (line.prompt_tokens, line.completion_tokens) == (7, 3)


async def test_a_silent_stream_that_has_begun_is_kept_alive_by_comments(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def pauses(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("first")
        await go_on.wait()
        await answer.end_stream()

    config = one_model("{url}", "server: {sse_keepalive_s: 0.1}")
    async with (
        provider(pauses) as remote,
        serving(config.replace("{url}", remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        client.stream("POST", "/v1/chat/completions", json=HELLO) as stream,
    ):
        lines = stream.aiter_lines()
        assert "first" in await next_data(lines)
        assert await next_data(lines) == ": keep-alive"
        assert await next_data(lines) == ": keep-alive"
        go_on.set()
        rest = [line async for line in lines]

    assert "data: [DONE]" in rest


async def test_before_content_nothing_is_sent_by_default(tmp_path: Path) -> None:
    """With commit_after_s a 200 and comments go out early, and a failure is then a frame."""

    async def fails_late(request: Received, answer: Answer) -> None:
        await asyncio.sleep(0.4)
        await answer.json({"error": {"message": "boom"}}, 500)

    plain = one_model("{url}").replace("backoff_s: 0.01", "attempts: 1, backoff_s: 0.01")
    early = plain + "\nserver: {commit_after_s: 0.1}"
    answers: list[httpx.Response] = []
    async with provider(fails_late) as remote:
        for config in (plain, early):
            settings = config.replace("{url}", remote.base_url)
            async with (
                serving(settings, tmp_path) as gateway,
                httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
            ):
                answers.append(await client.post("/v1/chat/completions", json=HELLO))

    assert [answer.status_code for answer in answers] == [502, 200]
    assert answers[1].text.startswith(": keep-alive\n\n")
    assert '"error"' in answers[1].text
    assert "[DONE]" not in answers[1].text


async def test_a_slow_reader_holds_the_provider_back_and_loses_nothing(tmp_path: Path) -> None:
    sent = 0

    async def pours(request: Received, answer: Answer) -> None:
        nonlocal sent
        await answer.begin_stream()
        for _ in range(400):
            await answer.text("x" * 50_000)
            sent += 1
        await answer.end_stream()

    async with (
        provider(pours) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=60) as client,
        client.stream("POST", "/v1/chat/completions", json=HELLO) as stream,
    ):
        await asyncio.sleep(0.7)
        held_back_at = sent
        text = "".join([piece async for piece in stream.aiter_text()])

    assert held_back_at < 400
    assert text.count("x") >= 400 * 50_000
    assert text.endswith("data: [DONE]\n\n")
