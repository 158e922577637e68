"""Equal requests at the same time share one call of the backend."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.gateway.content.cache.asking import ASKS, CHAT, ask, shown, text_of
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider

pytestmark = pytest.mark.anyio

CACHE = "cache: {}\n"
MANY = 100


class Gate:
    """A backend that begins to answer once it is opened. failures: it then fails so often."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.failures = 0

    async def behave(self, request: Received, answer: Answer) -> None:
        await self.opened.wait()
        if self.failures:
            self.failures -= 1
            await answer.json({"error": {"message": "no"}}, 400)
            return
        await answers(request, answer)


@asynccontextmanager
async def gated(
    tmp_path: Path, more: str = CACHE
) -> AsyncGenerator[tuple[Serving, Gate, Provider]]:
    """A gateway, and its backend with the gate closed."""
    gate = Gate()
    async with provider(gate.behave) as backend:
        text = one_model(backend.base_url, more).replace(
            "first_token_s: 1, between_tokens_s: 1, total_s: 5", "first_token_s: 60, total_s: 60"
        )
        async with serving(text, tmp_path) as gateway:
            yield gateway, gate, backend


async def in_flight(gateway: Serving, count: int) -> None:
    """Wait until the gateway has so many requests."""
    async with asyncio.timeout(60):
        while gateway.state.admission.in_flight != count:  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_hundred_equal_requests_call_the_backend_once(stream: bool, tmp_path: Path) -> None:
    async with gated(tmp_path) as (gateway, gate, backend):
        asked = [asyncio.create_task(ask(gateway, {"stream": stream})) for _ in range(MANY)]
        await in_flight(gateway, MANY)
        gate.opened.set()
        found = await asyncio.gather(*asked)
        assert len(backend.requests) == 1
        assert sorted(map(shown, found)) == ["hit"] * (MANY - 1) + ["miss"]
        assert {text_of(one) for one in found} == {"hello"}
        read = gateway.state.log.metrics.registry.get_sample_value
        assert read("strowger_cache_shared_total", {"model": "chat"}) == MANY - 1


@pytest.mark.parametrize("stream", [False, True])
async def test_if_the_first_client_leaves_one_of_the_others_takes_over(
    stream: bool, tmp_path: Path
) -> None:
    async with gated(tmp_path) as (gateway, gate, backend):
        first = asyncio.create_task(ask(gateway, {"stream": stream}))
        await backend.until(lambda: len(backend.requests) == 1)
        others = [asyncio.create_task(ask(gateway, {"stream": stream})) for _ in range(9)]
        await in_flight(gateway, 10)
        first.cancel()
        await backend.until(lambda: len(backend.requests) == 2)
        await in_flight(gateway, 9)
        gate.opened.set()
        found = await asyncio.gather(*others)
        assert len(backend.requests) == 2
        assert sorted(map(shown, found)) == ["hit"] * 8 + ["miss"]


async def test_a_client_that_waits_may_leave_and_harms_no_other(tmp_path: Path) -> None:
    async with gated(tmp_path) as (gateway, gate, backend):
        asked = [asyncio.create_task(ask(gateway)) for _ in range(5)]
        await in_flight(gateway, 5)
        leaves = asked.pop()
        leaves.cancel()
        await in_flight(gateway, 4)
        gate.opened.set()
        found = await asyncio.gather(*asked)
        assert {text_of(one) for one in found} == {"hello"}
        assert len(backend.requests) == 1


async def test_if_the_first_request_fails_another_takes_over(tmp_path: Path) -> None:
    async with gated(tmp_path) as (gateway, gate, backend):
        asked = [asyncio.create_task(ask(gateway)) for _ in range(6)]
        await in_flight(gateway, 6)
        gate.failures = 1
        gate.opened.set()
        found = await asyncio.gather(*asked)
        assert sorted(one.status_code for one in found) == [200] * 5 + [400]
        assert len(backend.requests) == 2


async def test_if_the_backend_fails_for_all_nobody_waits_for_all_others(tmp_path: Path) -> None:
    async with gated(tmp_path) as (gateway, gate, backend):
        asked = [asyncio.create_task(ask(gateway)) for _ in range(12)]
        await in_flight(gateway, 12)
        gate.failures = 12
        gate.opened.set()
        found = await asyncio.gather(*asked)
        assert {one.status_code for one in found} == {400}
        assert len(backend.requests) == 12, "each got an answer of its own"


async def test_waiting_ends_with_a_requests_own_deadline(tmp_path: Path) -> None:
    async with gated(tmp_path) as (gateway, gate, backend):
        first = asyncio.create_task(ask(gateway))
        await backend.until(lambda: len(backend.requests) == 1)
        hurried = await ask(gateway, {"timeout": 0.2})
        assert hurried.status_code == 504
        assert "while it waited for an equal request" in hurried.text
        gate.opened.set()
        assert shown(await first) == "miss"
        assert len(backend.requests) == 1


async def test_requests_of_different_tenants_share_nothing(tmp_path: Path) -> None:
    keys = (
        "auth: {mode: keys, keys: [{name: a, key: key-of-a-long-enough, team: t},"
        " {name: b, key: key-of-b-long-enough, team: t}]}\nteams: [{name: t}]\n"
    )
    for share, calls in (("key", 2), ("team", 1)):
        async with gated(tmp_path, f"{keys}cache: {{share: {share}}}") as (gateway, gate, backend):
            bearers = [f"Bearer key-of-{one}-long-enough" for one in "abab"]
            asked = [
                asyncio.create_task(ask(gateway, headers={**ASKS, "authorization": bearer}))
                for bearer in bearers
            ]
            await in_flight(gateway, 4)
            gate.opened.set()
            found = await asyncio.gather(*asked)
            assert [one.status_code for one in found] == [200] * 4
            assert len(backend.requests) == calls, share


async def test_an_answer_that_is_not_kept_lets_the_others_ask_for_themselves(
    tmp_path: Path,
) -> None:
    async with gated(tmp_path, "cache: {max_entry_bytes: 100}") as (gateway, gate, backend):
        for stream in (False, True):
            gate.opened.clear()
            before = len(backend.requests)
            asked = [asyncio.create_task(ask(gateway, {"stream": stream})) for _ in range(4)]
            await in_flight(gateway, 4)
            gate.opened.set()
            found = await asyncio.gather(*asked)
            assert {shown(one) for one in found} == {"miss"}
            assert len(backend.requests) == before + 4


async def test_a_request_that_wants_a_fresh_answer_waits_for_no_other(tmp_path: Path) -> None:
    async with gated(tmp_path) as (gateway, gate, backend):
        first = asyncio.create_task(ask(gateway))
        await backend.until(lambda: len(backend.requests) == 1)
        fresh = asyncio.create_task(ask(gateway, headers={**ASKS, "cache-control": "no-cache"}))
        await backend.until(lambda: len(backend.requests) == 2)
        gate.opened.set()
        assert [shown(one) for one in await asyncio.gather(first, fresh)] == ["miss", "miss"]


async def test_a_stream_that_waits_is_kept_alive(tmp_path: Path) -> None:
    early = f"{CACHE}server: {{commit_after_s: 0.05}}\n"
    async with gated(tmp_path, early) as (gateway, gate, backend):
        asked = asyncio.create_task(ask(gateway, {"stream": True}))
        await backend.until(lambda: len(backend.requests) == 1)
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60) as client:
            body = {**CHAT, "stream": True}
            async with client.stream(
                "POST", "/v1/chat/completions", json=body, headers=ASKS
            ) as waiting:
                lines = waiting.aiter_lines()
                assert (await anext(lines)).startswith(":"), "a comment while it waits"
                gate.opened.set()
                rest = [line async for line in lines]
        assert any("hello" in line for line in rest)
        await asked
        assert len(backend.requests) == 1
