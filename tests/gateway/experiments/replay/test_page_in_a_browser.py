"""A blind vote in a real browser, on a desk and on a phone."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.gateway.commanded import OPERATOR
from tests.gateway.console.admin.browser import browsing, chromium
from tests.gateway.experiments.replay.replaying import ARMS, Served, prompts, served, written
from tests.gateway.experiments.replay.test_page import anonymous

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        chromium() is None, reason="no Chromium: apt-get install chromium-headless-shell"
    ),
]
SLOW_MS = 10_000
WIDEST = """Math.max(...[...document.querySelectorAll('body *')]
    .filter(one => !one.closest('svg') && !one.closest('pre'))
    .map(one => one.getBoundingClientRect().right))"""


@pytest.fixture(scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Served]:
    folder: Path = tmp_path_factory.mktemp("page")
    async with served(folder, anonymous) as one:
        file = written(folder / "prompts.jsonl", prompts(6))
        done = await one.run("replay", "trial", "--from", str(file), *ARMS, "--max-usd", "20")
        assert done.exit_code == 0, done.output
        yield one


@pytest.fixture(scope="module")
async def browser() -> AsyncGenerator[Browser]:
    async with browsing() as browser:
        yield browser


@pytest.fixture(params=[1280, 360], ids=["desk", "phone"])
async def page(
    here: Served, browser: Browser, request: pytest.FixtureRequest
) -> AsyncGenerator[Page]:
    complaints: list[str] = []
    async with AsyncExitStack() as stack:
        context = await browser.new_context(viewport={"width": request.param, "height": 800})
        stack.push_async_callback(context.close)
        page = await context.new_page()
        page.set_default_timeout(SLOW_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda message: (
                complaints.append(message.text) if message.type in ("error", "warning") else None
            ),
        )
        await page.goto(f"{here.up.url}/admin")
        await page.fill("input[name=key]", OPERATOR["authorization"].removeprefix("Bearer "))
        await page.click("text=Sign in")
        await page.wait_for_selector("#traffic")
        await page.goto(f"{here.up.url}/admin/view/replay?run=trial")
        yield page
    assert complaints == []


async def test_a_person_reads_a_pair_votes_and_then_sees_the_arms(page: Page) -> None:
    wide = page.viewport_size["width"] if page.viewport_size else 0
    before = await page.inner_text("main")
    widest = await page.evaluate(WIDEST)

    await page.click("button:has-text('Left')")
    await page.wait_for_selector("text=You chose")
    after = await page.inner_text("#voted")

    assert "question" in before
    assert "You chose old" in after or "You chose new" in after
    assert widest <= wide
