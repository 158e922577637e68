"""The rerankers of Cohere, Voyage, LangChain and LlamaIndex, from their packages, at the gateway.

`make nightly-clients` installs them (tests/clients/packages.py) and runs this.
"""

import asyncio
import json
from pathlib import Path

import pytest

from tests.clients.packages import RERANKERS
from tests.gateway.surfaces.rerank.setting import ORDER, rerank_setting

pytestmark = [pytest.mark.anyio, pytest.mark.nightly]

SCRIPT = Path(__file__).parent / "scripts" / "rerankers.py"
KEY = "key-of-all-of-them-0001"


@pytest.mark.parametrize("model", ["cohere", "vllm", "tei"])
async def test_every_reranker_gets_the_same_order_from_any_backend(
    model: str, tmp_path: Path
) -> None:
    if not RERANKERS.installed:
        pytest.skip("python -m tests.clients.install rerankers")
    async with rerank_setting(tmp_path) as setting:
        process = await asyncio.create_subprocess_exec(
            RERANKERS.interpreter,
            SCRIPT,
            setting.gateway.url,
            KEY,
            model,
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await asyncio.wait_for(process.communicate(), 300)

    found = json.loads(said)
    assert len(found) == 9
    assert {name: best for name, best in found.items() if best != ORDER[:2]} == {}
