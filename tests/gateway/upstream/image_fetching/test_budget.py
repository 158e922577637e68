"""Fair slots: keys are served in turn, within the limits."""

import asyncio

import pytest

from gateway.upstream.image_fetching.budget import ByteMeter, FairSlots
from schemas.errors import InvalidRequest

pytestmark = pytest.mark.anyio


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_key_holds_at_most_half_and_waiting_keys_take_turns() -> None:
    shares, order = FairSlots(4), list[str]()

    async def work(key: str) -> None:
        async with shares.holding(key, 1):
            order.append(key)
            await settle()

    greedy = [asyncio.create_task(work("greedy")) for _ in range(20)]
    await settle()
    held_alone = shares.held
    await asyncio.gather(*greedy, *(asyncio.create_task(work("other")) for _ in range(3)))

    assert held_alone == 2
    assert "other" in order[:5]
    assert shares.held == 0


async def test_without_keys_all_of_it_is_for_everybody() -> None:
    shares = FairSlots(4)

    await asyncio.gather(*(shares.acquire("", 1) for _ in range(4)))

    assert shares.held == 4


async def test_one_that_is_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    shares = FairSlots(10)
    await shares.acquire("", 6)
    waits = asyncio.create_task(shares.acquire("", 6))
    behind = asyncio.create_task(shares.acquire("", 2))
    await settle()

    waits.cancel()
    await settle()

    assert behind.done()
    assert shares.held == 8
    shares.release("", 8)
    assert shares.held == 0


async def test_one_that_is_cancelled_just_when_its_turn_comes_gives_it_back() -> None:
    shares = FairSlots(1)
    await shares.acquire("", 1)
    waits = asyncio.create_task(shares.acquire("", 1))
    await settle()

    shares.release("", 1)
    waits.cancel()
    await settle()

    assert shares.held == 0


def test_the_first_byte_too_many_is_refused() -> None:
    meter = ByteMeter(10)
    meter.add(6, "a")

    with pytest.raises(
        InvalidRequest, match="b is too large: the images of a request may have at most 10"
    ):
        meter.add(5, "b")
