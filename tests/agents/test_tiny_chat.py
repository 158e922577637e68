"""Agent frameworks from their packages call a function of theirs with the bundled model."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.agents.install import named
from tests.agents.jobs import WEATHER
from tests.agents.roster import Agent
from tests.agents.running import execute
from tests.agents.starting import Run
from tests.gateway.commanded import Commanded, commanded

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

CONFIG = """
providers:
  - {name: here, adapter: local, engine: {dtype: float32, threads: 1, models: [
      {name: tiny, path: "bundled:tiny-chat"}]}}
models:
  - {name: tiny, defaults: {temperature: 0}, backends: [{provider: here, model: tiny}]}
"""
START_S = 240.0
CALLS = (
    "ai-sdk",
    "ai-sdk-messages",
    "ai-sdk-chat",
    "autogen",
    "google-node",
    "google-python",
    "google-python-whole",
    "langchain-chat",
    "langchain-responses",
    "langchain-messages",
    "openai-agents-chat",
    "openai-agents-responses",
    "pydantic-ai-chat",
    "pydantic-ai-responses",
    "pydantic-ai-messages",
)
"""Those whose prompt leaves room in a context of 1,024 tokens."""

WANTED = [one for one in named(os.environ.get("STROWGER_AGENTS", "").split()) if one.name in CALLS]


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Commanded, None]:
    config = tmp_path_factory.mktemp("run") / "config.yaml"
    async with commanded(config, CONFIG, until="serving") as running:
        async with asyncio.timeout(START_S), running.client() as ask:
            while (await ask.get("/readyz")).status_code != 200:  # noqa: ASYNC110  it tells only when asked
                await asyncio.sleep(0.2)
        yield running


@pytest.mark.parametrize("agent", WANTED, ids=lambda one: one.name)
async def test_a_framework_tells_the_weather_that_its_function_returned(
    up: Commanded, tmp_path: Path, agent: Agent
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()

    output, wrong = await execute(
        agent, Run(url=up.url, model="tiny", home=home, work=work, job=WEATHER)
    )

    assert wrong == []
    assert WEATHER.faults(work, output) == []
