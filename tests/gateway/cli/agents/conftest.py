"""A gateway with keys and three models, and an empty home."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import Answer, Provider, Received, provider

CONFIG = """
auth: {mode: keys, keys: [{name: a, key: key-of-a-client-0001}]}
models:
  - {name: chat, backends: [{provider: p, model: m}]}
  - {name: small, backends: [{provider: p, model: s}]}
  - {name: broken, retry: {attempts: 1}, backends: [{provider: p, model: broken}]}
prices: [{match: p/m, input: 1.25, output: 10}]
capabilities:
  - {match: p/m, context: 131_072, max_output: 16_384, input: [text, image], output: [text],
     tools: true}
  - {match: p/s, context: 8_192, tools: false}
"""


async def behave(request: Received, answer: Answer) -> None:
    if request.json["model"] == "broken":
        await answer.json({"error": {"message": "out of order"}}, 400)
    else:
        await answer.chat("OK")


@pytest.fixture(scope="module")
async def p() -> AsyncGenerator[Provider]:
    async with provider(behave) as one:
        yield one


@pytest.fixture(scope="module")
async def up(p: Provider, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Serving]:
    config = f"providers: [{{name: p, adapter: openai, api_key: k, base_url: '{p.base_url}'}}]"
    async with serving(config + CONFIG, tmp_path_factory.mktemp("run")) as one:
        yield one


@pytest.fixture
def home(tmp_path: Path) -> Path:
    found = tmp_path / "home"
    found.mkdir()
    return found
