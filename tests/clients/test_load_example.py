"""docs/examples/load-test does what its page says."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.gateway.serving import one_model, serving
from tests.stand_ins.provider import Answer, Received, answers, provider

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "examples" / "load-test" / "README.md").read_text("utf-8")
BRIEFLY = ("--seconds", "2", "--concurrency", "2")


async def run(url: str, *options: str) -> tuple[int | None, str]:
    """Run the page's command with other numbers against this gateway."""
    found = re.search(r"^python (\S+) --url http://127\.0\.0\.1:8080", PAGE, re.MULTILINE)
    assert found is not None
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, found[1], "--url", url, *BRIEFLY, *options),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


@pytest.mark.parametrize("options", [(), ("--stream",)])
async def test_a_load_test_reports_rates_and_latencies(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    async with (
        provider(answers) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
    ):
        status, output = await run(gateway.url, *options)

    assert status == 0, output
    rate, first, whole = output.splitlines()
    assert float(rate.partition(" requests/s")[0]) > 0
    assert re.fullmatch(r"first byte: p50 [\d.]+ ms, p90 [\d.]+ ms, p99 [\d.]+ ms", first)
    assert whole.startswith("whole answer: p50 ")


async def breaks_off(request: Received, answer: Answer) -> None:
    await answer.begin_stream()
    await answer.text("one")
    raise ConnectionResetError


async def test_a_load_test_counts_broken_streams_and_fails(tmp_path: Path) -> None:
    async with (
        provider(breaks_off) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
    ):
        status, output = await run(gateway.url, "--stream")

    assert status == 1
    assert "broken stream" in output


async def test_a_load_test_counts_refusals_by_status_and_fails(tmp_path: Path) -> None:
    async with (
        provider(answers) as remote,
        serving(one_model(remote.base_url), tmp_path) as gateway,
    ):
        status, output = await run(gateway.url, "--model", "none")

    assert status == 1
    assert re.search(r"^\d+ x 404$", output, re.MULTILINE)
