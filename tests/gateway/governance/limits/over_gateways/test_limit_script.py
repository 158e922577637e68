"""The script in Redis alone: windows that slide by the server's clock, which may step."""

import asyncio
import random
from collections.abc import AsyncGenerator, Generator
from time import monotonic, time

import msgspec
import pytest

from strowger_gateway.gateway.coordination.redis_transport import RedisTransport
from strowger_gateway.gateway.governance.limits.over_gateways.limit_script import (
    SCRIPT,
    ScriptAnswer,
    ScriptItem,
    ScriptRequest,
)
from strowger_gateway.schemas.secret import Secret
from tests.stand_ins.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.anyio

PERIOD_MS, LIMIT = 300, 10


@pytest.fixture(scope="module")
def redis() -> Generator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
async def transport(redis: RedisServer) -> AsyncGenerator[RedisTransport, None]:
    one = RedisTransport(Secret(redis.url), "test")
    await one.run([("FLUSHALL",)])
    yield one
    await one.leave()


async def call(
    transport: RedisTransport, holder: str, silent_ms: int = 5000, **more: object
) -> ScriptAnswer:
    fields = {"limit": LIMIT, "period": PERIOD_MS, **more}
    item = msgspec.convert(fields, ScriptItem)
    body = msgspec.json.encode(ScriptRequest(holder=holder, items=(item,)))
    (answer,) = await transport.run([("EVAL", SCRIPT, "1", "k", body, str(silent_ms))])
    assert isinstance(answer, bytes)
    return msgspec.json.decode(answer, type=ScriptAnswer)


@pytest.mark.parametrize("seed", range(3))
async def test_no_span_of_a_period_holds_more_than_the_limit(
    seed: int, transport: RedisTransport
) -> None:
    draws = random.Random(seed)
    times: list[tuple[float, float]] = []
    holders = {"a": 0, "b": 0, "c": 0}
    uses: dict[str, list[tuple[int, int]]] = {name: [] for name in holders}
    end = monotonic() + 1.5
    while monotonic() < end:
        name = draws.choice("abc")
        if holders[name] == 0:
            answer = await call(
                transport, name, need=1, advance=draws.randint(0, 2), uses=uses[name]
            )
            uses[name] = []
            holders[name] = 0 if answer.refused else answer.granted[0]
            assert answer.left[0] <= LIMIT
        if holders[name]:
            before = monotonic()
            holders[name] -= 1
            uses[name].append((PERIOD_MS, 1))
            times.append((before, monotonic()))
        await asyncio.sleep(draws.uniform(0, 0.01))

    assert len(times) > 2 * LIMIT
    for (_, first), (later, _) in zip(times, times[LIMIT:], strict=False):
        assert later - first > PERIOD_MS / 1000 - 0.02


async def test_the_wait_is_true(transport: RedisTransport) -> None:
    await call(transport, "a", need=10, period=2000)
    began = monotonic()
    await call(transport, "a", uses=[(400, 4), (2000, 6)], period=2000)
    refused = await call(transport, "b", need=3, period=2000)
    took_ms = (monotonic() - began) * 1000
    await asyncio.sleep(refused.wait / 1000)
    granted = await call(transport, "b", need=3, period=2000)

    assert refused.refused == 1
    assert 399 - took_ms <= refused.wait <= 400
    assert (granted.refused, granted.granted) == (0, (3,))


async def test_what_is_not_used_returns_and_what_is_corrected_is_free(
    transport: RedisTransport,
) -> None:
    await call(transport, "a", need=10)
    full = await call(transport, "b", need=1)
    await call(transport, "a", uses=[(PERIOD_MS, 6)], back=4)
    await call(transport, "a", uses=[(PERIOD_MS - 10, -5)], back=5)
    after = await call(transport, "b", need=9)

    assert full.refused == 1
    assert (after.refused, after.mine) == (0, (9,))


async def test_a_clock_that_steps_back_freezes_no_limit(transport: RedisTransport) -> None:
    await call(transport, "a", need=10, uses=[])
    await call(transport, "a", uses=[(PERIOD_MS, 10)])
    ahead = round(time() * 1000) + 3_600_000
    fields = (await transport.run([("HGETALL", "k")]))[0]
    assert isinstance(fields, dict)
    shifted: list[str] = []
    for name in map(str, (bytes(field).decode() for field in fields)):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  redis-py's answers have no type
        if name.startswith("u:"):
            shifted += [f"u:{ahead + PERIOD_MS}", "10"]
    await transport.run([("DEL", "k"), ("HSET", "k", "last", str(ahead), *shifted)])
    refused = await call(transport, "b", need=1)
    await asyncio.sleep(PERIOD_MS / 1000 + 0.05)
    granted = await call(transport, "b", need=1)

    assert refused.refused == 1
    assert refused.wait <= PERIOD_MS
    assert granted.refused == 0


async def test_what_a_silent_holder_held_counts_for_a_period_and_its_seats_are_free(
    transport: RedisTransport,
) -> None:
    silent_ms = 400
    began = monotonic()
    await call(transport, "a", need=10)
    refused = await call(transport, "b", silent_ms, need=1)
    granted_ms = await until_granted(transport, silent_ms, began, period=PERIOD_MS)
    await transport.run([("DEL", "k")])
    began = monotonic()
    await call(transport, "a", need=10, period=0)
    seats_ms = await until_granted(transport, silent_ms, began, period=0)

    assert refused.refused == 1
    assert 0 < refused.wait <= PERIOD_MS
    assert granted_ms > silent_ms + PERIOD_MS
    assert seats_ms > silent_ms


async def until_granted(
    transport: RedisTransport, silent_ms: int, began: float, period: int
) -> float:
    """Ask as a holder that is heard all the time; return the milliseconds until it gets all."""
    async with asyncio.timeout(60):
        while (await call(transport, "b", silent_ms, need=10, period=period)).refused:  # noqa: ASYNC110  time decides
            await asyncio.sleep(0.01)
    return (monotonic() - began) * 1000


async def test_what_a_holder_does_not_know_of_counts_as_used(transport: RedisTransport) -> None:
    """A call was carried out although its answer never arrived."""
    await call(transport, "a", need=6)
    known = await call(transport, "a", holds=2)
    other = await call(transport, "b", need=LIMIT - 6)
    more = await call(transport, "c", need=1)

    assert known.mine == (2,)
    assert known.left == (LIMIT - 6,)
    assert other.granted == (LIMIT - 6,)
    assert more.refused == 1


async def test_a_holder_keeps_its_leases_over_a_redis_that_has_lost_its_data(
    transport: RedisTransport,
) -> None:
    await call(transport, "a", need=6)
    await transport.run([("FLUSHALL",)])
    known = await call(transport, "a", holds=6)

    assert known.mine == (6,)
    assert known.left == (LIMIT - 6,)


async def test_holders_that_redis_could_not_hear_keep_what_they_hold(
    transport: RedisTransport,
) -> None:
    """While Redis is away nobody is heard, and requests in flight go on."""
    silent_ms = 400
    for holder, need in (("a", 5), ("b", 3)):
        assert not (await call(transport, holder, silent_ms, period=0, need=need, limit=8)).refused
    await asyncio.sleep(2 * silent_ms / 1000)
    first = await call(transport, "c", silent_ms, period=0, need=1, limit=8)
    async with asyncio.timeout(60):
        while True:  # b is alive, a is not
            await call(transport, "b", silent_ms, period=0, limit=8, holds=3)
            later = await call(transport, "c", silent_ms, period=0, need=5, limit=8)
            if not later.refused:
                break
            await asyncio.sleep(0.02)
    full = await call(transport, "c", silent_ms, period=0, need=1, limit=8)

    assert first.refused == 1
    assert later.granted == (5,)
    assert full.refused == 1
