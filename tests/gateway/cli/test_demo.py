"""The demonstration's experiment finds the model that adds better; its models are simulated."""

import asyncio
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from strowger_gateway.gateway.config.load import load_config
from tests.gateway.experiments.recorded_gateway import recorded
from tests.stand_ins.provider import Answer, Received, provider

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[3] / "docs" / "examples" / "ab-test"


@pytest.fixture(scope="module")
def crowd() -> ModuleType:
    """Load the script as Python does from its folder."""
    found = importlib.util.spec_from_file_location("ab_test_crowd", FOLDER / "crowd.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


async def adds(request: Received, answer: Answer) -> None:
    """Answer like the bundled models: one knows all sums, the other only for even first numbers."""
    numbers = re.search(rb"What is (\d+) \+ (\d+)", request.body)
    assert numbers is not None
    one, other = int(numbers[1]), int(numbers[2])
    knows = request.json["model"] == "tiny-chat" or one % 2 == 0
    await answer.chat(f"{one} + {other} = {one + other if knows else 0}.")


def test_the_demonstration_is_configured_for_the_bundled_models() -> None:
    config = load_config(FOLDER / "config.yaml", {})

    (experiment,) = config.experiments
    engine = config.providers[0].engine
    assert engine is not None
    assert {f"here/{model.name}" for model in engine.models} == {
        variant.backend for variant in experiment.variants
    }


async def test_a_crowd_that_votes_finds_the_model_that_adds(
    crowd: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (FOLDER / "config.yaml").read_text()
    async with provider(adds) as models:
        remote = f"[{{name: here, adapter: openai, base_url: {models.base_url}, api_key: k}}]"
        config = re.sub(r"providers:\n(?: .*\n)+", f"providers: {remote}\n", text)
        async with recorded(config, tmp_path) as up:

            async def import_records() -> None:
                while True:
                    await asyncio.sleep(0.05)
                    up.settle()

            importing = asyncio.create_task(import_records())
            settings = crowd.Settings(
                url=up.running.url, people=400, seed=1, admin_key="demo", key=""
            )
            status = await crowd.run(settings)
            importing.cancel()

    assert status == 0
    assert "trained is better than early" in " ".join(capsys.readouterr().out.split())
