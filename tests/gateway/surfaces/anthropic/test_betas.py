"""`anthropic-beta` reaches Claude on Bedrock, and is named where no one reads it."""

from pathlib import Path
from typing import cast

import httpx
import pytest

from tests.gateway.backends.vendors.backend import answering
from tests.gateway.backends.vendors.dialect import Json, Said, inner
from tests.gateway.backends.vendors.rows import VENDORS
from tests.gateway.surfaces.anthropic.claude import claude_in_front_of

pytestmark = pytest.mark.anyio

(BEDROCK,) = [one for one in VENDORS if one.name == "bedrock"]
KNOWN = ("interleaved-thinking-2025-05-14", "effort-2025-11-24")
CONFIG = """
providers:
  - {{name: aws, adapter: bedrock, base_url: "{url}", api_key: k-0123456789}}
models:
  - {{name: claude, backends: [{{provider: aws, model: eu.anthropic.claude-sonnet-4-5}}]}}
  - {{name: nova, backends: [{{provider: aws, model: amazon.nova-pro-v1}}]}}
"""


@pytest.mark.parametrize(
    ("model", "sent", "dropped"),
    [("claude", list(KNOWN), None), ("nova", None, "anthropic-beta")],
)
async def test_betas_go_to_claude_on_bedrock_and_are_named_elsewhere(
    tmp_path: Path, model: str, sent: list[str] | None, dropped: str | None
) -> None:
    async with claude_in_front_of(answering(BEDROCK, Said()), CONFIG, tmp_path) as setting:
        body = {"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        async with httpx.AsyncClient(base_url=setting.gateway.url, timeout=60) as client:
            answer = await client.post(
                "/v1/messages",
                json=body,
                headers={"anthropic-beta": ",".join(KNOWN)},
            )
        received = cast("Json", setting.sent())

    assert answer.status_code == 200, answer.text
    assert inner(received, "additionalModelRequestFields").get("anthropic_beta") == sent
    assert answer.headers.get("x-gateway-dropped-params") == dropped
