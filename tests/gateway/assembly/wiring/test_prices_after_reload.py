"""The cost of a request that is still running when the configuration is replaced."""

import asyncio
from pathlib import Path

import pytest

from strowger_gateway.gateway.assembly.runtime import Runtime
from strowger_gateway.gateway.config.load import read_config
from tests.gateway.routing.failures.fault_tasks import TASKS
from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

PRICES = "prices: [{match: remote/m-1, input: 1, output: 2}]"


async def test_a_request_is_priced_by_the_configuration_it_started_with(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def waits(request: Received, answer: Answer) -> None:
        await release.wait()
        await answers(request, answer)

    async with provider(waits) as a:
        config = one_model(a.base_url, PRICES)
        async with serving(config, tmp_path) as gateway:
            asked = asyncio.create_task(TASKS["chat"].ask(gateway.url, "chat"))
            await a.until(lambda: len(a.requests) == 1)
            without = config.replace("remote", "other")
            later = Runtime(read_config(without, source="config.yaml", env={}), run_dir=tmp_path)
            gateway.state.use_runtime(later)
            release.set()
            answer = await asked
            (line,) = gateway.access_lines()
            await later.close()

    assert answer.status_code == 200
    assert line.cost_usd
    assert not line.unpriced
