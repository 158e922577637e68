"""One timer expires every waiting item, once and in time, and stops when none waits."""

import asyncio
from collections.abc import Callable

import pytest

from strowger_gateway.gateway.backends.upstream.wire.deadlines import Deadlines
from tests.stand_ins.doubles import SOON_S

pytestmark = pytest.mark.anyio


class Item:
    def __init__(self, by: float) -> None:
        self.by = by
        self.expired_at: list[float] = []

    def expire(self) -> None:
        self.expired_at.append(asyncio.get_running_loop().time())


def items(*seconds: float) -> list[Item]:
    now = asyncio.get_running_loop().time()
    return [Item(now + after) for after in seconds]


async def until(condition: Callable[[], object]) -> None:
    """Wait for the condition, then a moment more in which nothing else may happen."""
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110  nothing announces it
            await asyncio.sleep(0.005)
    await asyncio.sleep(0.02)


async def test_each_item_expires_once_and_not_early() -> None:
    deadlines = Deadlines()
    waiting = items(0.15, 0.01, 0.1, 0.05, -1.0, 0.011, 0.012)

    for item in waiting:
        deadlines.add(item)
    await until(lambda: all(item.expired_at for item in waiting))

    for item in waiting:
        assert len(item.expired_at) == 1
        assert item.expired_at[0] >= item.by - 0.002


async def test_an_earlier_item_is_not_kept_waiting_by_a_later_one() -> None:
    deadlines = Deadlines()
    late, early = items(60.0, 0.05)

    deadlines.add(late)
    deadlines.add(early)
    await until(lambda: early.expired_at)

    assert not late.expired_at


async def test_a_discarded_item_never_expires() -> None:
    deadlines = Deadlines()
    kept, discarded = items(0.05, 0.05)

    deadlines.add(kept)
    deadlines.add(discarded)
    deadlines.discard(discarded)
    deadlines.discard(discarded)
    await until(lambda: kept.expired_at)

    assert not discarded.expired_at


async def test_an_item_may_wait_again_after_it_expired() -> None:
    deadlines = Deadlines()
    (item,) = items(0.02)
    deadlines.add(item)
    await until(lambda: item.expired_at)

    item.by = asyncio.get_running_loop().time() + 0.02
    deadlines.add(item)
    await until(lambda: len(item.expired_at) > 1)

    assert len(item.expired_at) == 2


async def test_items_that_expire_may_add_others() -> None:
    class Successor(Item):
        def expire(self) -> None:
            super().expire()
            deadlines.add(last)

    deadlines = Deadlines()
    (last,) = items(0.1)
    first = Successor(last.by - 0.08)

    deadlines.add(first)
    await until(lambda: last.expired_at)

    assert len(last.expired_at) == 1
