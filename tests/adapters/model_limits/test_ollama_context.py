"""The operator sets the context with which Ollama loads a model."""

from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tests.adapters.repairs.one_of_each import Json, Rig, one_of_each
from tests.gateway.config.configs import faults_of_provider

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    contexts = ", num_ctx: {ollama/qwen3: 32768, '*': 8192}, client_fields: {allow: [options]}"
    folder = tmp_path_factory.mktemp("context")
    async with one_of_each(folder, "ollama", ollama=contexts) as one:
        yield one


def options(rig: Rig) -> Json:
    return cast("Json", rig.sent["options"])


async def test_each_request_has_the_context_of_its_model(rig: Rig) -> None:
    await rig.chat("ollama/qwen3", temperature=0.5)
    assert options(rig) == {"num_ctx": 32768, "temperature": 0.5}
    await rig.messages("ollama/gemma3")
    assert options(rig) == {"num_ctx": 8192, "num_predict": 2048}
    await rig.client.post(
        "/v1/embeddings",
        json={"model": "ollama/qwen3", "input": "hi"},
        headers={"authorization": "Bearer key-of-team-a-0123456789"},
    )
    assert options(rig) == {"num_ctx": 32768}


async def test_a_client_that_may_send_options_sends_its_own(rig: Rig) -> None:
    await rig.chat("ollama/qwen3", options={"num_ctx": 1024, "mirostat": 1})

    assert options(rig) == {"num_ctx": 1024, "mirostat": 1}


def test_another_adapter_has_no_such_setting() -> None:
    assert faults_of_provider("adapter: openai, num_ctx: {m: 1}") == [
        "providers[0].num_ctx: only adapter ollama has it; remove it"
    ]
