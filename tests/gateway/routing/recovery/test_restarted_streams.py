"""`stream_recovery: restart`: a client gets a stream when it is complete, and not before."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from tests.gateway.routing.recovery.continuing import Client, ask, read
from tests.gateway.serving import serving
from tests.stand_ins.provider import Answer, Behaviour, Received, delta_body, provider

pytestmark = pytest.mark.anyio


def config(url: str, more: str = "", timeouts: str = "{}") -> str:
    return f"""
providers:
  - {{name: a, adapter: openai, base_url: {url}/first/v1, api_key: k, timeouts: {timeouts}}}
  - {{name: b, adapter: openai, base_url: {url}/second/v1, api_key: k}}
models:
  - name: chat
    policy: in_order
    stream_recovery: restart
    retry: {{attempts: 2, backoff_s: 0}}
    backends: [{{provider: a, model: m}}, {{provider: b, model: m}}]
{more}
"""


def staged(first: Behaviour, second: Behaviour) -> Behaviour:
    async def behave(request: Received, answer: Answer) -> None:
        await (first if request.path.startswith("/first") else second)(request, answer)

    return behave


def call(arguments: str, name: str | None = None) -> dict[str, object]:
    function: dict[str, object] = {"arguments": arguments}
    if name:
        function["name"] = name
    piece = {"index": 0, "id": "call_1", "type": "function", "function": function}
    return {"tool_calls": [piece]}


async def breaks_off_in_a_call(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    await answer.text("let me see")
    await answer.event(delta_body(call('{"city": "Ber', "weather")))
    answer.close()


async def calls(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    await answer.event(delta_body(call('{"city": "Bern"}', "weather")))
    await answer.end_stream("tool_calls")


async def says(request: Received, answer: Answer) -> None:
    await answer.stream("hel", "lo")


async def test_nothing_of_an_answer_that_broke_off_is_shown_also_of_calls(tmp_path: Path) -> None:
    function: dict[str, object] = {"name": "weather", "parameters": {"type": "object"}}
    tool = {"type": "function", "function": function}
    body = {
        "model": "chat",
        "stream": True,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [tool],
    }
    async with provider(staged(breaks_off_in_a_call, calls)) as remote:
        async with serving(config(remote.origin), tmp_path) as gateway:
            async with httpx.AsyncClient(timeout=60) as client:
                got = await client.post(f"{gateway.url}/v1/chat/completions", json=body)
            (line,) = gateway.access_lines()

    assert (got.status_code, got.headers["x-gateway-backend"]) == (200, "b/m")
    assert "Ber\\" not in got.text
    assert "let me see" not in got.text
    assert json.dumps('{"city": "Bern"}') in got.text
    assert [one.outcome for one in line.attempts] == ["upstream_broken", "ok"]
    assert line.attempts[0].deltas > 0, "its tokens are charged"


async def says_all_and_breaks_off(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    for text in ("hel", "lo"):
        await answer.text(text)
    await answer.event(delta_body({}, "stop"))
    answer.close()


@pytest.mark.parametrize("choices", [1, 2])
async def test_an_answer_that_lacks_its_end_mark_only_is_complete(
    choices: int, tmp_path: Path
) -> None:
    """Of several answers at once, one that has ended says nothing about the others."""
    async with provider(staged(says_all_and_breaks_off, says)) as remote:
        async with serving(config(remote.origin), tmp_path) as gateway:
            got = await ask(gateway.url, **({"n": choices} if choices > 1 else {}))
            (line,) = gateway.access_lines()

    expected = ["ok"] if choices == 1 else ["upstream_broken", "ok"]
    assert (got.text, got.finish, got.done, got.error) == ("hello", "stop", True, "")
    assert [one.outcome for one in line.attempts] == expected


async def test_an_answer_is_the_same_as_without(tmp_path: Path) -> None:
    async with provider(staged(says, says)) as remote:
        async with serving(config(remote.origin), tmp_path) as gateway:
            got = await ask(gateway.url)

    expected = Client(
        text="hello",
        others=False,
        error="",
        done=True,
        finish="stop",
        roles=1,
        usage=got.usage,
        comments=(),
    )
    assert got == expected
    assert got.usage


async def test_a_client_that_waits_gets_the_head_and_signs_of_life(tmp_path: Path) -> None:
    going = asyncio.Event()

    async def slowly(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("hel")
        await going.wait()
        await answer.text("lo")
        await answer.end_stream()

    more = "server: {commit_after_s: 0.1, sse_keepalive_s: 0.1}"
    async with provider(staged(slowly, says)) as remote:
        async with serving(config(remote.origin, more), tmp_path) as gateway:
            body = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "h"}]}
            url = f"{gateway.url}/v1/chat/completions"
            async with (
                httpx.AsyncClient(timeout=60) as client,
                client.stream("POST", url, json=body) as response,
            ):
                pieces = response.aiter_text()
                early = await anext(pieces) + await anext(pieces)
                going.set()
                rest = "".join([piece async for piece in pieces])

    assert read(early).text == ""
    assert early.startswith(":")
    assert read(rest).text == "hello"


async def test_a_client_that_leaves_ends_the_attempt(tmp_path: Path) -> None:
    async def forever(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        await answer.text("hel")
        await answer.gone.wait()

    async with provider(staged(forever, says)) as remote:
        async with serving(config(remote.origin), tmp_path) as gateway:
            asking = asyncio.create_task(ask(gateway.url))
            await remote.until(lambda: len(remote.requests) == 1)
            asking.cancel()
            await remote.until(lambda: remote.hung_up == 1)
            await remote.until(lambda: bool(gateway.access_lines()))

            assert gateway.state.admission.in_flight == 0


async def test_what_is_held_is_within_the_memory_for_large_answers(tmp_path: Path) -> None:
    async def large(request: Received, answer: Answer) -> None:
        await answer.begin_stream()
        for _ in range(40):
            await answer.text("x" * 60_000)
        await answer.end_stream()

    more = "server: {max_body_bytes: 1MiB, max_buffered_bytes: 1MiB}"
    async with provider(staged(large, large)) as remote:
        async with serving(config(remote.origin, more), tmp_path) as gateway:
            body = {"model": "chat", "stream": True, "messages": [{"role": "user", "content": "h"}]}
            async with httpx.AsyncClient(timeout=60) as client:
                got = await client.post(f"{gateway.url}/v1/chat/completions", json=body)

            breaker = gateway.state.runtime.backends["chat: a/m"].breaker
            assert breaker.failed == 0, "a limit of ours says nothing about a backend"

    assert got.status_code in (429, 503)
    assert got.headers["retry-after"]
