"""Slots in one event loop: keys take turns, and whatever is cancelled leaves nothing behind."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strowger_gateway.gateway.platform.fair_slots import FairSlots
from strowger_gateway.schemas.holdings import ANONYMOUS, Holder

pytestmark = pytest.mark.anyio

A, B = Holder("a"), Holder("b")


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_key_leaves_the_last_eighth_to_others_and_waiting_keys_take_turns() -> None:
    slots, order = FairSlots(16), list[str]()

    async def work(holder: Holder) -> None:
        async with slots.holding(holder):
            order.append(holder.key)
            await settle()

    greedy = [asyncio.create_task(work(A)) for _ in range(60)]
    await settle()
    held_alone = slots.held
    await asyncio.gather(*greedy, *(asyncio.create_task(work(B)) for _ in range(3)))

    assert held_alone == 14
    assert order[14:17].count("b") == 2
    assert slots.held == slots.waiting == 0


async def test_without_keys_all_of_it_is_for_everybody() -> None:
    slots = FairSlots(4)

    await asyncio.gather(*(slots.acquire(ANONYMOUS) for _ in range(4)))

    assert slots.held == 4


async def test_a_more_urgent_request_of_another_key_comes_first() -> None:
    slots, order = FairSlots(1), list[int]()
    await slots.acquire(ANONYMOUS)

    async def work(holder: Holder, level: int) -> None:
        async with slots.holding(holder, level=level):
            order.append(level)

    tasks = [asyncio.create_task(work(holder, level)) for holder, level in ((A, 5), (B, 2), (A, 1))]
    await settle()
    slots.release(ANONYMOUS)
    await asyncio.gather(*tasks)

    assert order == [1, 2, 5]


async def test_a_request_waits_no_longer_than_its_time() -> None:
    slots = FairSlots(1)
    await slots.acquire(A)

    with pytest.raises(TimeoutError):
        await slots.acquire(B, by=asyncio.get_running_loop().time())

    assert (slots.held, slots.waiting) == (1, 0)


async def test_one_that_is_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    slots = FairSlots(10)
    await slots.acquire(ANONYMOUS, 6)
    waits = asyncio.create_task(slots.acquire(ANONYMOUS, 6))
    behind = asyncio.create_task(slots.acquire(ANONYMOUS, 2))
    await settle()

    waits.cancel()
    await settle()

    assert behind.done()
    assert slots.held == 8
    slots.release(ANONYMOUS, 8)
    assert slots.held == 0


async def test_one_that_is_cancelled_just_when_its_turn_comes_gives_it_back() -> None:
    slots = FairSlots(1)
    await slots.acquire(A)
    granted = asyncio.create_task(slots.acquire(B))
    dead = asyncio.create_task(slots.acquire(A))
    await settle()

    slots.release(A)
    granted.cancel()
    dead.cancel()
    await settle()

    assert slots.held == slots.waiting == 0


async def test_one_whose_turn_comes_after_its_cancellation_is_passed_over() -> None:
    slots = FairSlots(1)
    await slots.acquire(A)
    dead = asyncio.create_task(slots.acquire(B))
    behind = asyncio.create_task(slots.acquire(Holder("c")))
    await settle()

    dead.cancel()
    slots.release(A)
    await settle()

    assert behind.done()
    assert (slots.held, slots.waiting) == (1, 0)


@given(seed=st.integers(0, 2**32))
def test_nothing_is_held_after_any_storm_of_requests_and_cancellations(seed: int) -> None:
    async def storm() -> None:
        draw = random.Random(seed)
        slots, tasks = FairSlots(8), list[asyncio.Task[None]]()

        async def work(holder: Holder, amount: int) -> None:
            by = None if draw.random() < 0.7 else asyncio.get_running_loop().time()
            async with slots.holding(holder, amount, level=draw.randint(1, 5), by=by):
                assert 0 <= slots.held <= 8
                for _ in range(draw.randint(0, 3)):
                    await asyncio.sleep(0)

        for _ in range(60):
            match draw.randint(0, 3):
                case 0:
                    draw.choice(tasks or [asyncio.create_task(settle())]).cancel()
                case 1:
                    await asyncio.sleep(0)
                case _:
                    holder = draw.choice((A, B, Holder("c", "t"), Holder("d", "t"), ANONYMOUS))
                    amount = slots.bounded(holder, draw.choice((1, 1, 2, 8)))
                    tasks.append(asyncio.create_task(work(holder, amount)))
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

        assert slots.held == slots.waiting == 0
        assert all(one is None or isinstance(one, TimeoutError | asyncio.CancelledError)
                   for one in outcomes)  # fmt: skip

    asyncio.run(asyncio.wait_for(storm(), 20))
