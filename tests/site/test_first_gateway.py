"""Every step of docs/first-gateway.md does what the page says, on a running gateway."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from tests.gateway.commanded import Commanded, commanded

pytestmark = pytest.mark.anyio
PAGE = (Path(__file__).parents[2] / "docs" / "first-gateway.md").read_text("utf-8")
YAML = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CURL = [
    block
    for block in re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    if block.startswith("curl")
]


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Commanded, None]:
    async with commanded(tmp_path_factory.mktemp("first") / "first.yaml", YAML[0]) as up:
        await up.said("tiny-chat is ready")
        async with httpx.AsyncClient(base_url=up.url, timeout=60) as client, asyncio.timeout(60):
            while True:
                if (await client.get("/readyz")).is_success:
                    break
                await asyncio.sleep(0.05)
        yield up


async def printed(up: Commanded, command: str) -> str:
    """Run a snippet in bash, against the port that the gateway was given."""
    assert "http://127.0.0.1:8080/" in command
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", command.replace("http://127.0.0.1:8080", up.url)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


async def test_the_steps_start_a_gateway_add_a_fallback_and_require_a_key(
    gateway: Commanded,
) -> None:
    start, fallback, with_key = CURL

    assert "17 + 25 = 42." in await printed(gateway, start)

    await gateway.reload(YAML[1])
    answer = await printed(gateway, fallback)
    assert "17 + 25 = 42." in answer
    assert "x-gateway-backend: here/tiny-chat" in answer.lower()

    await gateway.reload(YAML[1] + YAML[2])
    assert "invalid_api_key" in await printed(gateway, start)
    assert "17 + 25 = 42." in await printed(gateway, with_key)
