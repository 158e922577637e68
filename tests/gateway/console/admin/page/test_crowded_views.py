"""Every view with an open circuit and names of 80 characters: nothing overlaps or is cut."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import httpx
import pytest
from playwright.async_api import Browser, Page

from tests.gateway.console.admin.browser import browsing, chromium
from tests.gateway.console.admin.page.crowd import KEY, failing, speaking
from tests.gateway.console.admin.page.overlaps import OVERLAPS
from tests.gateway.serving import Serving, serving
from tests.stand_ins.provider import provider

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        chromium() is None, reason="no Chromium: apt-get install chromium-headless-shell"
    ),
]
LONG = "a-vendor-with-a-very-long-name-that-someone-has-generated-from-a-cost-centre-47110815"
CONFIG = """
auth: {{mode: keys, admin_key: {admin}, keys: [{{name: {long}, key: key-of-ada}}]}}
providers:
  - {{name: {long}, adapter: openai, base_url: "{south}", api_key: k}}
  - {{name: north, adapter: openai, base_url: "{north}", api_key: k}}
models:
  - name: {long}
    policy: in_order
    retry: {{backoff_s: 0.01, max_backoff_s: 0.02}}
    breaker: {{min_requests: 2, cooldown_s: 90}}
    backends: [{{provider: {long}, model: {long}}}, {{provider: north, model: large}}]
  - name: trial
    backends: [{{provider: north, model: small}}]
experiments:
  - name: {short}
    model: trial
    assign_by: header:x-session-id
    primary: solved
    variants:
      - {{name: control, backend: north/small, weight: 50}}
      - {{name: {short}, backend: {long}/medium, weight: 50}}
budgets: [{{name: {long}, who: {{any: true}}, usd: 100, per: month}}]
prices: [{{match: "{long}/*", input: 1, output: 2}}, {{match: "north/*", input: 1, output: 2}}]
limits: [{{name: {long}, who: {{any: true}}, requests: 1000, per: minute}}]
"""


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Serving]:
    async with AsyncExitStack() as stack:
        north = await stack.enter_async_context(provider(speaking(0.0, "42.")))
        south = await stack.enter_async_context(provider(failing))
        urls = {"north": north.base_url, "south": south.base_url}
        text = CONFIG.format(admin=KEY, long=LONG, short=LONG[:64], **urls)
        one = await stack.enter_async_context(serving(text, tmp_path_factory.mktemp("crowded")))
        async with httpx.AsyncClient(base_url=one.url, timeout=60) as client:
            client.headers["authorization"] = "Bearer key-of-ada"
            for model in (LONG, LONG, LONG, LONG, "trial", "nothing"):
                body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
                await client.post("/v1/chat/completions", json=body)
        yield one


@pytest.fixture(scope="module")
async def browser() -> AsyncGenerator[Browser]:
    async with browsing() as browser:
        yield browser


async def signed_in(stack: AsyncExitStack, browser: Browser, up: Serving, width: int) -> Page:
    context = await browser.new_context(viewport={"width": width, "height": 900})
    stack.push_async_callback(context.close)
    page = await context.new_page()
    page.set_default_timeout(10_000)
    await page.goto(f"{up.url}/admin")
    await page.fill("input[name=key]", KEY)
    await page.click("form[action='/admin/sign-in'] button")
    await page.wait_for_selector("#traffic")
    return page


@pytest.mark.parametrize("width", [pytest.param(390, marks=pytest.mark.nightly), 1280])
async def test_nothing_overlaps_and_nothing_is_cut(
    width: int, up: Serving, browser: Browser
) -> None:
    faults: dict[str, list[str]] = {}
    async with AsyncExitStack() as stack:
        page = await signed_in(stack, browser, up, width)
        assert "circuit open" in await page.inner_text("#problems")
        links = page.locator("nav.parts a")
        paths = [str(await one.get_attribute("href")) for one in await links.all()]
        assert len(paths) >= 10
        for path in paths:
            await page.goto(f"{up.url}{path}")
            found = await page.evaluate(OVERLAPS)
            wide = await page.evaluate("document.documentElement.scrollWidth")
            if found or wide > width:
                faults[path] = [f"{wide} pixels wide", *found]

    assert faults == {}


async def test_what_the_search_for_overlaps_finds(up: Serving, browser: Browser) -> None:
    async with AsyncExitStack() as stack:
        page = await signed_in(stack, browser, up, 1280)
        await page.evaluate(
            """() => {
                document.querySelector("main").replaceChildren();
                document.querySelector("main").insertAdjacentHTML("beforeend", `
                    <p class="n">over</p><p class="n" id="up">under</p>
                    <div id="cut"><span id="inner">cut to the left</span></div>`);
                document.querySelector("#up").style.marginTop = "-18px";
                document.querySelector("#cut").style.cssText = "overflow: hidden; width: 60px";
                const inner = document.querySelector("#inner");
                inner.style.cssText = "margin-left: -30px; white-space: nowrap";
            }"""
        )
        found = await page.evaluate(OVERLAPS)

    assert sorted(found) == ["cut at its left: cut to the left", "overlap: over / under"]
