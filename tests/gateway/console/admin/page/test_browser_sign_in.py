"""Sign in with a real provider in a real browser: the cookies survive the way back."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.gateway.commanded import Commanded
from tests.gateway.console.admin.browser import browsing, chromium
from tests.gateway.governance.sign_in.real_provider import real_provider, settings_for
from tests.stand_ins.ports.reserved import reserved_port

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        chromium() is None, reason="no Chromium: apt-get install chromium-headless-shell"
    ),
]
SLOW_MS = 20_000


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Commanded]:
    folder, port = tmp_path_factory.mktemp("run"), reserved_port()
    async with real_provider() as provider:
        settings = await settings_for(provider, port, folder)
        async with settings.gateway(folder / "one", port=port) as found:
            yield found


@pytest.fixture(scope="module")
async def browser() -> AsyncGenerator[Browser]:
    async with browsing() as found:
        yield found


@pytest.fixture
async def page(browser: Browser) -> AsyncGenerator[Page]:
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    found = await context.new_page()
    found.set_default_timeout(SLOW_MS)
    yield found
    await context.close()


async def enter(page: Page, up: Commanded, sub: str, path: str = "/admin") -> None:
    await page.goto(f"{up.url}{path}")
    await page.click("text=Sign in with Mock")
    await page.fill("input[name=sub]", sub)
    await page.click("button:has-text('Authorize')")


async def test_the_provider_sends_the_browser_to_the_page_that_was_wanted(
    page: Page, up: Commanded, tmp_path: Path
) -> None:
    await enter(page, up, "u-2", "/admin?window=1h")
    await page.wait_for_selector("#traffic")
    who = await page.inner_text(".bar .who")
    cookies = {one.get("name"): one for one in await page.context.cookies(up.url + "/admin")}
    await page.screenshot(path=tmp_path / "signed-in.png")
    await page.reload()
    reloaded = await page.locator("#traffic").count()
    await page.click("text=Sign out")
    await page.wait_for_selector("text=Sign in with Mock")
    await page.goto(f"{up.url}/admin")

    assert page.url == f"{up.url}/admin/sign-in"
    assert who.split() == ["bob", "viewer"]
    assert reloaded == 1
    assert set(cookies) == {"strowger_admin"}, "that of the attempt is gone"
    assert cookies["strowger_admin"].get("sameSite") == "Strict"
    assert cookies["strowger_admin"].get("httpOnly")


async def test_the_address_bar_shows_no_code_afterwards(page: Page, up: Commanded) -> None:
    await enter(page, up, "u-1")
    await page.wait_for_selector("#traffic")

    assert page.url == f"{up.url}/admin"
    assert "code" not in await page.evaluate("document.referrer")


async def test_people_without_a_role_see_why(page: Page, up: Commanded, tmp_path: Path) -> None:
    await enter(page, up, "u-3")
    problem = await page.inner_text(".problem")
    await page.screenshot(path=tmp_path / "refused.png")

    assert "Eve has no role here: none of the values of the claim realm.roles is in" in problem


async def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page, up: Commanded) -> None:
    await enter(page, up, "u-1")
    await page.wait_for_selector("#traffic")
    await page.set_viewport_size({"width": 360, "height": 740})

    widest = await page.evaluate(
        "Math.max(...[...document.querySelectorAll('.bar *')].map("
        "one => one.getBoundingClientRect().right))"
    )

    assert widest <= 360
