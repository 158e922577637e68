"""Threads that keys use in turn: nothing stays in use, and a queue is not the fault of a call."""

import asyncio
import random
import threading
import time

import pytest

from strowger_gateway.gateway.platform.fair_threads import FairThreads
from strowger_gateway.schemas.holdings import Holder

pytestmark = pytest.mark.anyio

ANN, BEN = Holder("ann"), Holder("ben")
LONG_S = 60.0


async def until(true: "threading.Event") -> None:
    while not true.is_set():  # noqa: ASYNC110  a thread sets it
        await asyncio.sleep(0.001)


async def test_a_key_leaves_a_thread_to_others_and_its_calls_keep_their_order() -> None:
    threads, release, order = FairThreads(2, "t"), threading.Event(), list[int]()
    running = threading.Event()

    def call(number: int) -> None:
        running.set()
        assert release.wait(LONG_S)
        order.append(number)

    calls = [asyncio.create_task(threads.run(ANN, lambda n=n: call(n), LONG_S)) for n in range(5)]
    await until(running)
    found = await threads.run(BEN, lambda: "ben's", LONG_S)
    release.set()
    await asyncio.gather(*calls)
    threads.close()

    assert found == "ben's"
    assert order == list(range(5))


async def test_the_time_in_the_queue_is_not_the_time_of_the_call() -> None:
    """Calls of 50 ms wait in turn for longer than the second that each may take."""
    threads = FairThreads(1, "t")
    answers = await asyncio.gather(
        *[threads.run(Holder(f"key {n % 3}"), lambda: time.sleep(0.05), 1.0) for n in range(25)]
    )
    threads.close()

    assert answers == [None] * 25


async def test_a_call_that_hangs_times_out_and_so_does_the_queue_behind_it() -> None:
    threads, release = FairThreads(1, "t"), threading.Event()
    calls = [threads.run(one, lambda: release.wait(LONG_S), 0.2) for one in (ANN, BEN)]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    release.set()
    after = await threads.run(BEN, lambda: "again", LONG_S)
    threads.close()

    assert [type(one) for one in ends] == [TimeoutError] * 2
    assert after == "again"


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_stays_in_use_after_any_mixture_of_ends(seed: int) -> None:
    chance, threads = random.Random(seed), FairThreads(3, "t")

    def call(fails: bool, takes_s: float) -> int:
        time.sleep(takes_s)
        if fails:
            raise ValueError
        return 1

    async def client() -> None:
        holder = Holder(chance.choice("abcd"), chance.choice(["", "team"]))
        fails, takes_s = chance.random() < 0.3, chance.choice([0.0, 0.001, 0.01])
        timeout_s = chance.choice([0.0005, 0.5, LONG_S])
        await threads.run(holder, lambda: call(fails, takes_s), timeout_s)

    clients = [asyncio.create_task(client()) for _ in range(150)]
    for one in clients:
        if chance.random() < 0.4:
            one.cancel()
        if chance.random() < 0.2:
            await asyncio.sleep(chance.choice([0.0, 0.002]))
    await asyncio.gather(*clients, return_exceptions=True)
    while threads.busy:  # noqa: ASYNC110  calls that nothing waits for any more
        await asyncio.sleep(0.001)

    assert await asyncio.gather(*[threads.run(ANN, lambda: 1, LONG_S) for _ in range(9)]) == [1] * 9
    assert threads.busy == 0
    threads.close()
