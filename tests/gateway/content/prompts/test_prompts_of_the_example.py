"""The example of docs/examples/prompts, with the local engine."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from strowger_gateway.gateway.config.load import load_config
from tests.gateway.content.prompts.prompted import recorded
from tests.gateway.serving import serving
from tests.gateway.shared_engine import SharedEngine

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "prompts"


def test_the_example_is_taken_without_a_warning() -> None:
    told: list[str] = []

    found = load_config(EXAMPLE / "config.yaml", {}, told.append)

    assert told == []
    assert [one.backend for one in found.experiments[0].variants] == ["here/tiny-chat"] * 2


async def test_the_local_engine_reads_the_rendered_prompt(
    engine: SharedEngine, tmp_path: Path
) -> None:
    text = f"""
providers: [{engine.provider}]
models: [{{name: chat, backends: [{{provider: here, model: tiny}}]}}]
prompts:
  - name: sum
    default: 1
    versions:
      - {{version: 1, file: {EXAMPLE}/prompts/sum-1.txt}}
      - {{version: 2, file: {EXAMPLE}/prompts/sum-2.txt}}
"""
    async with (
        serving(text, tmp_path, engine=engine) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=120) as client,
    ):
        values = {"first": "4", "second": "5"}
        shared = {"model": "chat", "temperature": 0, "max_tokens": 8}
        asked = {**shared, "messages": [{"role": "user", "content": "4+5"}]}
        plain = (await client.post("/v1/chat/completions", json=asked)).json()
        found: dict[int, Any] = {}
        for version in (1, 2):
            body = {**shared, "prompt_id": "sum", "prompt_version": version}
            answer = await client.post(
                "/v1/chat/completions", json={**body, "prompt_variables": values}
            )
            assert answer.status_code == 200, answer.text
            assert recorded(gateway)["prompt"] == f"sum@{version}"
            found[version] = answer.json()

    assert found[1]["choices"][0]["message"]["content"] == plain["choices"][0]["message"]["content"]
    assert found[1]["usage"] == plain["usage"]
    assert found[2]["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"]
