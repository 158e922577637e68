"""A credential is replaced before its end, and no request waits for it."""

import asyncio
import math
from collections.abc import Awaitable, Callable

import pytest

from strowger_gateway.gateway.backends.upstream.credentials.auto_refresh import (
    AutoRefresh,
    ExpiringValue,
)
from strowger_gateway.gateway.backends.upstream.credentials.refresh_schedule import (
    expires_at,
    pause,
    refresh_at,
)
from strowger_gateway.schemas.errors import UpstreamUnreachable
from tests.gateway.backends.upstream.skipping_loop import SkippingLoop

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": SkippingLoop}


def seconds() -> float:
    return asyncio.get_running_loop().time()


def counted(lifetime_s: float) -> Callable[[], Awaitable[ExpiringValue[int]]]:
    """A fetch that returns 1, 2, 3, …"""
    calls = [0]

    async def fetch() -> ExpiringValue[int]:
        calls[0] += 1
        return ExpiringValue(value=calls[0], lifetime_s=lifetime_s)

    return fetch


async def test_a_value_is_replaced_before_its_end_and_no_request_waits() -> None:
    """A fetch takes 0.1 s and begins 0.18 s before the end."""
    fetch = counted(1.2)

    async def slow() -> ExpiringValue[int]:
        await asyncio.sleep(0.1)
        return await fetch()

    kept = AutoRefresh(slow, upstream="up", clock=seconds, draw=lambda: 0.0)
    await kept.get(math.inf)
    slowest, over, values = 0.0, seconds() + 2.2, set[int]()
    while (started := seconds()) < over:
        values.add(await kept.get(math.inf))
        slowest = max(slowest, seconds() - started)
        await asyncio.sleep(0.001)
    await kept.aclose()

    assert values == {1, 2, 3}
    assert slowest == 0


async def test_a_failed_refresh_fails_no_request_while_the_value_is_valid(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fetch = counted(1.0)

    async def once() -> ExpiringValue[int]:
        lease = await fetch()
        if lease.value > 1:
            raise UpstreamUnreachable("no access token: down", upstream="up")
        return lease

    kept = AutoRefresh(once, upstream="up", clock=seconds, draw=lambda: 0.0)
    over = seconds() + 0.86
    values = set[int]()
    while seconds() < over:
        values.add(await kept.get(math.inf))
        await asyncio.sleep(0.005)
    await kept.aclose()

    assert values == {1}
    [line] = caplog.messages
    assert line.startswith("up: no access token: down; next try in 0.5 s, the current credential")


async def test_a_value_that_was_idle_past_its_time_is_replaced_behind_its_next_use() -> None:
    """The first is replaced at 0.9 s; the second is due at 1.8 s and expires at 1.98 s."""
    kept = AutoRefresh(counted(1.2), upstream="up", clock=seconds, draw=lambda: 0.0)
    await kept.get(math.inf)
    await asyncio.sleep(1.88)

    late = await kept.get(math.inf)
    await asyncio.sleep(0.01)
    next_one = await kept.get(math.inf)
    await kept.aclose()

    assert (late, next_one) == (2, 3)


async def test_a_value_serves_until_shortly_before_its_end() -> None:
    """The timer that replaces it earlier is late."""
    at = 0.0
    kept = AutoRefresh(counted(3600), upstream="up", clock=lambda: at, draw=lambda: 0.5)

    first = await kept.get(math.inf)
    at = 3589
    still = await kept.get(math.inf)
    at = 3591
    after = await kept.get(math.inf)
    await kept.aclose()

    assert (first, still, after) == (1, 1, 2)


async def test_rejected_values_are_replaced_ever_more_slowly() -> None:
    kept = AutoRefresh(counted(3600), upstream="up", clock=seconds)
    replaced: list[float] = []

    for _ in range(600):
        value = await kept.get(math.inf)
        if kept.reject(value):
            replaced.append(seconds())
        await asyncio.sleep(0.5)

    assert replaced == [0, 1.5, 4, 8.5, 17, 33.5, 66, 126.5, 187, 247.5]
    await kept.aclose()


def test_a_credential_is_replaced_at_about_four_fifths_of_its_life() -> None:
    assert refresh_at(100, 3600, 0.0) == 100 + 2700
    assert refresh_at(100, 3600, 1.0) == 100 + 3060
    assert expires_at(100, 3600) == 3690
    assert expires_at(100, 1) == pytest.approx(100.9)


def test_failed_calls_are_repeated_after_one_second_and_at_most_one_minute() -> None:
    assert [pause(failures, 1.0) for failures in (1, 2, 3, 7, 1000)] == [1, 2, 4, 60, 60]
    assert pause(3, 0.0) == 2
