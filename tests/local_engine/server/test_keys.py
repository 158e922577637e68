"""One key's many answers, and the first token of another key's, in an engine with a model."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from strowger_gateway.local_engine.server.service import Service
from strowger_gateway.schemas.events import TextDelta
from strowger_gateway.schemas.sampling import Sampling
from tests.local_engine.conftest import Folder
from tests.local_engine.services import MODEL, chat, config, serving

pytestmark = pytest.mark.anyio

PLACES = 16
STEPS = 40
"""Usually two to four; more on a busy machine, until the event loop is scheduled."""


@pytest.fixture(scope="module")
async def service(folder: Folder) -> AsyncGenerator[Service]:
    async with serving(config(folder("llama"), max_sequences=PLACES, kv_cache=1 << 20)) as found:
        yield found


async def answer(service: Service, tenant: str, sampling: Sampling, priority: int | None) -> None:
    request = replace(chat("hi", sampling), priority=UNSET if priority is None else priority)
    async with aclosing(service.generate(request, model=MODEL, tenant=tenant)) as batches:
        async for _ in batches:
            pass


@asynccontextmanager
async def flooded(
    service: Service, sampling: Sampling, *, requests: int, priority: int | None
) -> AsyncGenerator[None]:
    """Hold every place of the engine, and its queue, with one key's endless answers."""
    many = [
        asyncio.create_task(answer(service, "many", sampling, priority)) for _ in range(requests)
    ]
    async with asyncio.timeout(60):
        while service.stats()[MODEL].running < PLACES - PLACES // 8:  # noqa: ASYNC110  no event
            await asyncio.sleep(0.01)
    yield
    for one in many:
        one.cancel()
    await asyncio.wait(many)


async def steps_to_first_token(service: Service, tenant: str = "other") -> int:
    before = service.stats()[MODEL].steps
    request = chat("hello", Sampling(temperature=0.0, max_tokens=4, ignore_eos=True))
    async with aclosing(service.generate(request, model=MODEL, tenant=tenant)) as batches:
        async for batch in batches:
            if any(isinstance(event, TextDelta) for event in batch):
                break
    return service.stats()[MODEL].steps - before


ENDLESS = Sampling(temperature=0.0, ignore_eos=True)


@pytest.mark.parametrize(
    ("sampling", "requests", "priority"),
    [
        (ENDLESS, 300, None),
        (ENDLESS, 300, 1),
        (replace(ENDLESS, n=20, temperature=1.0), 15, 1),
    ],
    ids=["plain", "urgent", "several choices"],
)
async def test_many_answers_of_one_key_delay_another_keys_first_token_by_a_few_steps(
    service: Service, sampling: Sampling, requests: int, priority: int | None
) -> None:
    async with flooded(service, sampling, requests=requests, priority=priority):
        steps = [await steps_to_first_token(service) for _ in range(5)]
        waiting = service.stats()[MODEL].waiting

    assert waiting >= 15
    assert sorted(steps)[2] <= STEPS
