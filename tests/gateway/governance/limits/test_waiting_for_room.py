"""`wait_s`: requests wait for room instead of being refused, in turn between keys."""

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from strowger_gateway.gateway.governance.limits.process_side import LimitsSide
from tests.gateway.governance.limits.test_limited_requests import (
    config,
    says_hello,
    send,
    until_idle,
)
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

ONE_AT_ONCE = "  - {name: one, who: {any: true}, concurrent: 1, wait_s: 5}"


async def test_a_request_without_room_waits_and_is_served(tmp_path: Path) -> None:
    async with provider() as a, serving(config(a.base_url, ONE_AT_ONCE), tmp_path) as gateway:

        async def slowly(request: Received, answer: Answer) -> None:
            await asyncio.sleep(0.05)
            await answer.chat()

        a.behaviour = slowly
        answers = await asyncio.gather(*(send(gateway) for _ in range(5)))
        text = (await gateway.state.processes.metrics_text())[0].decode()

    assert [one.status_code for one in answers] == [200] * 5
    assert 'strowger_limit_waited_requests_total{limit="one",outcome="admitted"} 4.0' in text
    assert "strowger_limit_waiting_requests 0.0" in text


async def test_a_key_with_many_waiting_requests_does_not_delay_another_key(tmp_path: Path) -> None:
    async with provider() as a, serving(config(a.base_url, ONE_AT_ONCE), tmp_path) as gateway:
        order, go = list[str](), asyncio.Semaphore(0)

        async def in_turn(request: Received, answer: Answer) -> None:
            order.append(str(request.json["user"]))
            await go.acquire()
            await answer.chat()

        a.behaviour = in_turn
        web = [asyncio.create_task(send(gateway, user="web")) for _ in range(5)]
        await until_waiting(gateway, 4)
        batch = [
            asyncio.create_task(send(gateway, "key-of-batch-000", user="batch")) for _ in range(2)
        ]
        await until_waiting(gateway, 6)
        for _ in range(7):
            go.release()
        answers = await asyncio.gather(*web, *batch)

    assert [one.status_code for one in answers] == [200] * 7
    assert sorted(order[:5]) == ["batch", "batch", "web", "web", "web"]


async def test_after_wait_s_the_request_is_refused(tmp_path: Path) -> None:
    limits = ONE_AT_ONCE.replace("wait_s: 5", "wait_s: 0.2")
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        go = asyncio.Event()

        async def waits(request: Received, answer: Answer) -> None:
            await go.wait()
            await answer.chat()

        a.behaviour = waits
        first = asyncio.create_task(send(gateway))
        await until_received(a.requests)
        refused = await send(gateway)
        go.set()
        served = await first

    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "limit_exceeded"
    assert served.status_code == 200


async def test_a_request_that_cannot_be_admitted_in_time_is_refused_at_once(tmp_path: Path) -> None:
    limits = "  - {name: rate, who: {any: true}, requests: 1, wait_s: 15}"
    async with provider() as a, serving(config(a.base_url, limits), tmp_path) as gateway:
        await send(gateway)
        async with asyncio.timeout(60):
            refused = await send(gateway)

    assert refused.status_code == 429


async def test_a_client_that_leaves_while_it_waits_is_never_sent_to_a_backend(
    tmp_path: Path,
) -> None:
    async with provider() as a, serving(config(a.base_url, ONE_AT_ONCE), tmp_path) as gateway:
        go = asyncio.Event()

        async def waits(request: Received, answer: Answer) -> None:
            await go.wait()
            await answer.chat()

        a.behaviour = waits
        first = asyncio.create_task(send(gateway))
        await until_received(a.requests)
        leaving = asyncio.create_task(send(gateway))
        await until_waiting(gateway, 1)
        leaving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leaving
        await until_waiting(gateway, 0)
        go.set()
        await first
        await until_idle(gateway)
        sent = len(a.requests)
        a.behaviour = says_hello
        after = await send(gateway)
        lines = gateway.access_lines()

    assert sent == 1
    assert after.status_code == 200
    assert sorted(line.status for line in lines) == [200, 200, 499]


async def until_waiting(gateway: Serving, count: int) -> None:
    async with asyncio.timeout(60):
        while gateway.state.side(LimitsSide).limits.queue.waiting != count:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.005)


async def until_received(requests: Sequence[Received]) -> None:
    async with asyncio.timeout(60):
        while not requests:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.005)
