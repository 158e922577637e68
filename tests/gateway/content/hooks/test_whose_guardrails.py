"""A guardrail examines the requests of its callers and models, and no others, in whatever order."""

from pathlib import Path

import httpx
import pytest

from tests.gateway.serving import serving
from tests.stand_ins.provider import provider

pytestmark = pytest.mark.anyio

CONFIG = """
auth:
  mode: keys
  keys:
    - {{name: app, key: sk-of-the-app, team: search}}
    - {{name: other, key: sk-of-another, team: search}}
    - {{name: far, key: sk-of-a-third, team: ads}}
teams: [{{name: search}}, {{name: ads}}]
providers: [{{name: a, adapter: openai, base_url: "{url}", api_key: k}}]
models:
  - {{name: chat, aliases: [talk], backends: [{{provider: a, model: m}}]}}
  - {{name: draft, backends: [{{provider: a, model: m}}]}}
guardrails:
  - {{name: of-a-key, use: patterns, who: {{key: app}}, settings: {{words: [apple]}}}}
  - {{name: of-a-team, use: patterns, who: {{team: search}}, settings: {{words: [pear]}}}}
  - {{name: of-a-model, use: patterns, models: [draft], settings: {{words: [plum]}}}}
"""


async def test_a_guardrail_applies_to_its_callers_and_models_only(tmp_path: Path) -> None:
    async with (
        provider() as backend,
        serving(CONFIG.format(url=backend.base_url), tmp_path) as up,
        httpx.AsyncClient(base_url=up.url, timeout=60) as client,
    ):

        async def blocked(key: str, model: str) -> set[str]:
            """Return the words for which this key is refused."""
            found: set[str] = set()
            for word in ("apple", "pear", "plum"):
                answer = await client.post(
                    "/v1/chat/completions",
                    headers={"authorization": f"Bearer {key}"},
                    json={"model": model, "messages": [{"role": "user", "content": word}]},
                )
                if answer.status_code == 400:
                    assert answer.json()["error"]["code"] == "content_blocked"
                    found.add(word)
                else:
                    assert answer.status_code == 200, answer.text
            return found

        for _ in range(2):  # what applies to one caller is not what was found for another
            assert await blocked("sk-of-the-app", "chat") == {"apple", "pear"}
            assert await blocked("sk-of-another", "chat") == {"pear"}
            assert await blocked("sk-of-a-third", "chat") == set()
            assert await blocked("sk-of-a-third", "draft") == {"plum"}
            assert await blocked("sk-of-the-app", "talk") == {"apple", "pear"}
            assert await blocked("sk-of-the-app", "draft") == {"apple", "pear", "plum"}
