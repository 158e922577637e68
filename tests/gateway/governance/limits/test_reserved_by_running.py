"""What running requests have reserved is not used yet: a refusal for its sake says so."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic_ns

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.coordination.redis_transport import RedisTransport
from strowger_gateway.gateway.governance.leases.worker import REPORT_S
from strowger_gateway.gateway.governance.limits.ledger import (
    RESERVED_NS,
    Account,
    Accounts,
    Hold,
    LimitRefusal,
)
from strowger_gateway.gateway.governance.limits.over_gateways.limit_script import (
    RESERVED_MS,
    SCRIPT,
    ScriptAnswer,
    ScriptItem,
    ScriptRequest,
)
from strowger_gateway.gateway.governance.limits.window import Window
from strowger_gateway.schemas.secret import Secret
from tests.gateway.governance.limits.test_leases import Office, limit
from tests.gateway.governance.limits.test_limited_requests import (
    PATHS,
    config,
    says_hello,
    send,
    until_idle,
)
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, answers, provider
from tests.stand_ins.redis_server import running_redis

pytestmark = pytest.mark.anyio

TOKENS = "  - {name: tpm, who: {key: web}, tokens: 100, per: day}"
"""A request reserves 24 and uses 10."""


@asynccontextmanager
async def occupied(
    limits: str, tmp_path: Path, count: int
) -> AsyncGenerator[tuple[Serving, Provider, Callable[[], Awaitable[object]]], None]:
    """A gateway with so many requests running; the function lets them end."""
    ready, go = asyncio.Semaphore(0), asyncio.Event()

    async def waits(request: Received, answer: Answer) -> None:
        ready.release()
        await go.wait()
        await answers(request, answer)

    async with provider(waits) as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        running = [asyncio.create_task(send(gateway)) for _ in range(count)]
        for _ in running:
            await ready.acquire()

        async def end() -> None:
            go.set()
            await asyncio.gather(*running)
            await until_idle(gateway)

        try:
            yield gateway, a, end
        finally:
            await end()


def is_temporary(answer: httpx.Response) -> None:
    """Asserts that clients come back within seconds."""
    assert answer.status_code == 429, answer.text
    assert 1 <= int(answer.headers["retry-after"]) <= 5
    assert "reserved by running requests" in answer.text
    assert "x-should-retry" not in answer.headers


@pytest.mark.parametrize("path", sorted(PATHS))
async def test_every_surface_says_that_running_requests_have_reserved_the_room(
    path: str, tmp_path: Path
) -> None:
    limits = TOKENS.replace("100", "25")
    body = {**PATHS[path], "input": "hi " * 30} if "embeddings" in path else PATHS[path]
    async with occupied(limits, tmp_path, 1) as (gateway, a, end):
        refused = await send(gateway, path=path, body=body)
        await end()
        a.behaviour = answers

    is_temporary(refused)


async def test_what_is_reserved_comes_back_when_the_requests_have_ended(tmp_path: Path) -> None:
    async with occupied(TOKENS, tmp_path, 4) as (gateway, a, end):
        refused = [await send(gateway) for _ in range(3)]
        await end()
        a.behaviour = says_hello
        later = [await send(gateway) for _ in range(4)]
        used_up = [await send(gateway, max_tokens=60) for _ in range(2)]

    for one in refused:
        is_temporary(one)
    assert [one.status_code for one in later] == [200] * 4
    assert {one.status_code for one in used_up} == {429}
    assert {"retry in" in one.text for one in used_up} == {True}
    assert min(int(one.headers["retry-after"]) for one in used_up) > 60


async def test_a_request_that_no_room_can_hold_is_refused_for_good(tmp_path: Path) -> None:
    async with occupied(TOKENS, tmp_path, 4) as (gateway, _, end):
        refused = await send(gateway, max_tokens=200)
        await end()

    assert refused.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.headers


async def test_used_up_requests_outlast_reserved_tokens(tmp_path: Path) -> None:
    limits = f"{TOKENS}\n  - {{name: rpm, who: {{key: web}}, requests: 4, per: hour}}"
    async with occupied(limits, tmp_path, 4) as (gateway, _, end):
        refused = await send(gateway)
        await end()

    assert "'rpm' allows 4 requests per hour" in refused.json()["error"]["message"]
    assert int(refused.headers["retry-after"]) > 60


async def test_with_wait_s_a_request_waits_for_what_running_ones_give_back(tmp_path: Path) -> None:
    limits = TOKENS.replace("per: day", "per: day, wait_s: 20")
    async with occupied(limits, tmp_path, 4) as (gateway, _, end):
        waiting = [asyncio.create_task(send(gateway)) for _ in range(4)]
        await asyncio.sleep(0.05)
        await end()
        found = await asyncio.gather(*waiting)

    assert [one.status_code for one in found] == [200] * 4


steps = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "reserve", "settle", "pass"]),
        st.integers(0, 40),
        st.integers(0, 10),
    ),
    max_size=40,
)


@given(steps)
def test_only_room_that_running_requests_may_give_back_is_called_reserved(
    history: list[tuple[str, int, int]],
) -> None:
    window, at = Window(60, 10**6), 0
    accounts = Accounts([Account("l", "day", "", None, window, None)])
    open_: list[Hold] = []
    used = 0
    for what, amount, which in history:
        at += 1
        if what == "reserve":
            hold = accounts.reserve(amount, at)
            if hold is not None:
                open_.append(hold)
                continue
            refusal = accounts.refusal(amount, at)
            assert refusal.reserved == (used + amount <= 60)
            assert refusal.wait is not None
            assert refusal.wait <= RESERVED_NS or not refusal.reserved
        elif what == "settle" and open_:
            hold = open_.pop(which % len(open_))
            hold.settle(amount, at)
            used += amount
        assert window.running == sum(hold.tokens for hold in open_)


@pytest.mark.parametrize("others", [False, True])
async def test_over_workers_what_any_of_them_has_running_is_reserved(*, others: bool) -> None:
    office = Office(3, 1, limit(tokens=1000))
    holds = [await office.workers[number % 3 * others].request(240) for number in range(4)]
    refused = [await worker.request(240) for worker in office.workers]
    for hold in holds:
        assert isinstance(hold, Hold)
        hold.settle(10, monotonic_ns())
    await asyncio.sleep(2 * REPORT_S)
    admitted = [await worker.request(240) for worker in office.workers]
    await office.close()

    for one in refused:
        assert isinstance(one, LimitRefusal)
        assert (one.reserved, one.wait) == (True, RESERVED_NS)
    assert all(isinstance(one, Hold) for one in admitted)


async def test_over_workers_what_was_really_used_is_not_reserved() -> None:
    office = Office(2, 1, limit(tokens=1000))
    for number in range(4):
        hold = await office.workers[number % 2].request(240)
        assert isinstance(hold, Hold)
        hold.settle(240, monotonic_ns())
    await asyncio.sleep(2 * REPORT_S)
    refused = [await worker.request(240) for worker in office.workers]
    await office.close()

    for one in refused:
        assert isinstance(one, LimitRefusal)
        assert not one.reserved
        assert one.wait is not None
        assert one.wait > RESERVED_NS


async def test_a_killed_workers_requests_run_no_more() -> None:
    office = Office(2, 1, limit(tokens=1000))
    for _ in range(4):
        assert isinstance(await office.workers[1].request(240), Hold)
    office.kill(1)
    refused = await office.workers[0].request(240)
    await office.close()

    assert isinstance(refused, LimitRefusal)
    assert not refused.reserved


async def test_over_gateways_redis_adds_up_what_is_running() -> None:
    draws = random.Random(1)
    with running_redis() as server:
        transport = RedisTransport(Secret(server.url), "test")

        async def call(holder: str, silent_ms: int = 5000, **more: object) -> ScriptAnswer:
            item = msgspec.convert({"limit": 1000, "period": 60_000, **more}, ScriptItem)
            body = msgspec.json.encode(ScriptRequest(holder=holder, items=(item,)))
            times = str(silent_ms), str(RESERVED_MS)
            (answer,) = await transport.run([("EVAL", SCRIPT, "1", "k", body, *times)])
            assert isinstance(answer, bytes)
            return msgspec.json.decode(answer, type=ScriptAnswer)

        for holder in "ab":
            await call(holder, need=400)
            await call(holder, uses=((50_000, 400),), running=400 + draws.randint(0, 9))
        soon = await call("c", need=300, running=0)
        too_large = await call("c", need=1001, running=0)
        await call("a", running=0)
        after_one = await call("c", need=300, running=0)
        await call("b", running=0)
        used = await call("c", need=300, running=0)
        await call("b", running=400)
        await asyncio.sleep(0.03)
        silent = await call("c", need=300, running=0, silent_ms=10)
        await transport.leave()

    assert (soon.reserved, soon.wait) == (True, RESERVED_MS)
    assert not too_large.reserved
    assert after_one.reserved
    assert (used.reserved, used.refused) == (False, 1)
    assert used.wait > 40_000
    assert not silent.reserved
