"""Answers in Redis behind Sentinels and in a Cluster, over the loss of a master."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from strowger_gateway.gateway.content.cache.redis_store import PREFIX
from tests.gateway.content.cache.asking import ask, shown, text_of
from tests.gateway.serving import Serving, one_model, serving
from tests.stand_ins.provider import Provider, provider
from tests.stand_ins.redis_groups.servers import (
    Cluster,
    Watched,
    redis_cli,
    running_cluster,
    running_sentinels,
)

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]
ASKED = 24


@pytest.fixture(params=["sentinels", "cluster"])
def group(request: pytest.FixtureRequest) -> Generator[Watched | Cluster]:
    with running_sentinels() if request.param == "sentinels" else running_cluster() as servers:
        yield servers


@asynccontextmanager
async def one_gateway(
    backend: Provider, group: Watched | Cluster, run_dir: Path
) -> AsyncGenerator[Serving]:
    text = f"cache: {{store: redis}}\nstore: {{redis_url: '{group.url}'}}\n"
    async with serving(one_model(backend.base_url, text), run_dir) as gateway:
        yield gateway


async def all_of(gateway: Serving) -> list[str]:
    """Send every request once. Returns what the gateway says of the cache for each."""
    answers = [await ask(gateway, {"user": f"u{number}"}) for number in range(ASKED)]
    assert {text_of(one) for one in answers} == {"hello"}
    return [shown(one) for one in answers]


async def written(group: Watched | Cluster) -> None:
    """Wait until every master's replica has what the master has."""

    def of_entries() -> int:
        if isinstance(group, Cluster):
            return sum(len(keys) for keys in group.keys().values())
        return len(redis_cli(group.master().port, "KEYS", f"{PREFIX}*").split())

    async with asyncio.timeout(60):
        while await asyncio.to_thread(of_entries) < ASKED:
            pass
    for server in group.servers:
        await asyncio.to_thread(redis_cli, server.port, "WAIT", "1", "5000")


async def until_used(gateway: Serving) -> None:
    """Wait until the gateway has found the new master. Every request is answered until then."""
    async with asyncio.timeout(60):
        while "bypass" in await all_of(gateway):
            pass


async def test_gateways_share_answers_and_every_request_is_answered_while_a_master_is_lost(
    group: Watched | Cluster, tmp_path: Path
) -> None:
    async with (
        provider() as backend,
        one_gateway(backend, group, tmp_path) as one,
        one_gateway(backend, group, tmp_path) as other,
    ):
        assert await all_of(one) == ["miss"] * ASKED
        await written(group)
        assert await all_of(other) == ["hit"] * ASKED

        lost = group.master() if isinstance(group, Watched) else group.servers[0]
        lost.kill()
        for gateway in (one, other):
            await until_used(gateway)
            assert await all_of(gateway) == ["hit"] * ASKED
