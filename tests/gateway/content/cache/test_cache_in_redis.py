"""Answers in Redis: shared by gateways, bounded in time and size, and never a condition."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from redis.asyncio import Redis

from strowger_gateway.gateway.content.cache.part import CacheSide
from strowger_gateway.gateway.content.cache.redis_store import PREFIX
from tests.gateway.config.configs import GOOD, faults
from tests.gateway.content.cache.asking import ask, shown, text_of
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Provider, provider
from tests.stand_ins.redis_server import RedisServer, running_redis

pytestmark = pytest.mark.anyio


@pytest.fixture
def redis() -> Generator[RedisServer]:
    with running_redis() as server:
        yield server


@asynccontextmanager
async def one_gateway(
    backend: Provider, redis: RedisServer, run_dir: Path, more: str = ""
) -> AsyncGenerator[Serving]:
    text = f"cache: {{store: redis{more}}}\nstore: {{redis_url: '{redis.url}'}}\n"
    async with serving(one_model(backend.base_url, text), run_dir) as gateway:
        try:
            await connected(gateway, redis, more)
            backend.requests.clear()
            yield gateway
        finally:
            await gateway.state.side(CacheSide).close(1.0)


async def connected(gateway: Serving, redis: RedisServer, more: str) -> None:
    """Ask until Redis is used: on a busy machine, connecting takes longer than a request waits."""
    while shown(await ask(gateway, {"user": "first"})) == "bypass":
        pass
    if "max_entry_bytes" not in more:
        await written(redis, 1)
    await command(redis, "FLUSHALL")


async def command(redis: RedisServer, *words: str) -> object:
    """Run one command."""
    async with Redis.from_url(redis.url) as client:  # pyright: ignore[reportUnknownMemberType]
        return cast(object, await client.execute_command(*words))  # pyright: ignore[reportUnknownMemberType]


async def keys(redis: RedisServer) -> list[bytes]:
    return cast("list[bytes]", await command(redis, "KEYS", f"{PREFIX}*"))


async def written(redis: RedisServer, count: int) -> list[bytes]:
    """Wait until there are so many entries. Return their keys."""
    async with asyncio.timeout(60):
        while len(found := await keys(redis)) < count:
            pass
    return found


async def test_gateways_share_answers(redis: RedisServer, tmp_path: Path) -> None:
    async with (
        provider() as backend,
        one_gateway(backend, redis, tmp_path) as one,
        one_gateway(backend, redis, tmp_path) as other,
    ):
        for number, stream in enumerate((False, True), start=1):
            assert shown(await ask(one, {"stream": stream})) == "miss"
            await written(redis, number)
            answer = await ask(other, {"stream": stream})
            assert (shown(answer), text_of(answer)) == ("hit", "hello")
        assert len(backend.requests) == 2


async def test_entries_expire_and_large_ones_are_not_written(
    redis: RedisServer, tmp_path: Path
) -> None:
    async with provider() as backend:
        async with one_gateway(backend, redis, tmp_path, ", ttl_s: 900") as gateway:
            await ask(gateway)
            (key,) = await written(redis, 1)
        assert 800 < cast(int, await command(redis, "TTL", key.decode())) <= 900
        await command(redis, "FLUSHALL")
        async with one_gateway(backend, redis, tmp_path, ", max_entry_bytes: 50") as gateway:
            assert [shown(await ask(gateway)) for _ in range(2)] == ["miss", "miss"]
        assert await keys(redis) == []


@pytest.mark.parametrize("fault", ["killed", "hangs", "refuses"])
async def test_without_redis_requests_are_answered_and_pass_the_cache_by(
    fault: str, redis: RedisServer, tmp_path: Path
) -> None:
    async with provider() as backend, one_gateway(backend, redis, tmp_path) as gateway:
        assert shown(await ask(gateway)) == "miss"
        await written(redis, 1)
        if fault == "killed":
            redis.kill()
        elif fault == "hangs":
            redis.hang()
        else:
            await command(redis, "ACL", "SETUSER", "default", "-get", "-set")
        for stream in (False, True):
            answers = [await ask(gateway, {"stream": stream}) for _ in range(3)]
            assert {text_of(one) for one in answers} == {"hello"}
            assert {shown(one) for one in answers} == {"bypass"}
        read = gateway.state.log.metrics.registry.get_sample_value
        assert 1 <= (read("strowger_cache_failures_total") or 0) <= 6
        if fault == "killed":
            redis.start()
        elif fault == "hangs":
            redis.go_on()
        else:
            return
        while shown(await ask(gateway)) == "bypass":
            pass  # it is tried again after a while
        assert shown(await ask(gateway)) in ("hit", "miss")


async def test_a_redis_that_is_full_is_still_read(
    redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with provider() as backend, one_gateway(backend, redis, tmp_path) as gateway:
        await ask(gateway)
        await written(redis, 1)
        await command(redis, "CONFIG", "SET", "maxmemory", "1")
        for seed in range(3):
            assert shown(await ask(gateway, {"seed": seed})) == "miss"
            assert shown(await ask(gateway)) == "hit", "what was kept before is found"
        (said,) = [one.message for one in caplog.records if "Redis" in one.message]
        assert said.startswith("Redis takes no responses, and is only read: OutOfMemoryError")
        await command(redis, "CONFIG", "SET", "maxmemory", "0")
        while shown(await ask(gateway, {"seed": 9})) != "hit":
            pass  # writes are tried again after a while
        async with asyncio.timeout(60):
            # The entry can be read as soon as Redis has it, before the write's answer is here.
            while caplog.records[-1].message != "Redis takes responses again":
                await keys(redis)


def test_redis_needs_an_address() -> None:
    assert faults(f"{GOOD}cache: {{store: redis}}") == [
        "cache.store: redis needs store.redis_url, which names the server"
    ]
