"""The parts of the page in a real browser: narrow, dark, by keyboard, and without a script."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page

from tests.gateway.console.admin.browser import browsing, chromium
from tests.gateway.console.admin.governance.governed import KEY, PAYERS, Governed, governed, use

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        chromium() is None, reason="no Chromium: apt-get install chromium-headless-shell"
    ),
]
SLOW_MS = 5000
LONG = "x" * 120
PARTS = (
    "keys",
    "keys/crawler",
    "spend",
    "spend?by=tag&per=month",
    "budgets",
    "budgets?key=crawler",
    "limits",
    "limits?key=crawler&end_user=ann",
    "audit",
)


TEXTS_BEYOND_THEIR_CELLS = """[...document.querySelectorAll("tbody td, tbody th")].filter(cell => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    const text = range.getBoundingClientRect(), edge = cell.getBoundingClientRect();
    const beyond = text.left < edge.left - 1 || text.right > edge.right + 1;
    return cell.innerText !== "" && beyond;
}).map(cell => cell.innerText)"""


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Governed]:
    async with governed(tmp_path_factory.mktemp("run")) as up:
        for key, team, user, tags in PAYERS:
            up.issue(key, team=team, user=user, tags=tags)
        up.issue(LONG, user=LONG * 2, tags=(LONG,))
        use(up.store)
        yield up


@pytest.fixture(scope="module")
async def browser() -> AsyncGenerator[Browser]:
    async with browsing() as browser:
        yield browser


@asynccontextmanager
async def visiting(
    browser: Browser, up: Governed, *, width: int = 1280, script: bool = True
) -> AsyncGenerator[Page]:
    """A page after signing in; errors that the browser logs fail the test."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    async with AsyncExitStack() as stack:
        context = await browser.new_context(
            viewport={"width": width, "height": 900}, java_script_enabled=script
        )
        stack.push_async_callback(context.close)
        page = await context.new_page()
        page.set_default_timeout(SLOW_MS)
        page.on("console", note)
        await page.goto(f"{up.up.url}/admin/sign-in")
        await page.fill("input[name=key]", KEY)
        await page.click("button.primary")
        yield page
    assert complaints == []


@pytest.mark.parametrize("width", [360, 800, 1280])
async def test_no_part_is_wider_than_the_window(width: int, up: Governed, browser: Browser) -> None:
    async with visiting(browser, up, width=width) as page:
        for part in PARTS:
            await page.goto(f"{up.up.url}/admin/view/{part}")
            for summary in await page.locator("summary").all():
                await summary.click()
            assert await page.evaluate("document.documentElement.scrollWidth") <= width, part
            assert await page.evaluate(TEXTS_BEYOND_THEIR_CELLS) == [], part


async def test_every_field_has_a_label_and_the_current_part_is_marked(
    up: Governed, browser: Browser
) -> None:
    async with visiting(browser, up) as page:
        for part in PARTS:
            await page.goto(f"{up.up.url}/admin/view/{part}")
            unlabelled = await page.evaluate(
                "[...document.querySelectorAll('input:not([type=hidden]), select, textarea')]"
                ".filter(one => !one.labels.length).map(one => one.outerHTML)"
            )
            assert unlabelled == [], part
            current = await page.locator("nav.parts [aria-current]").inner_text()
            assert current.lower() == part.partition("/")[0].partition("?")[0]
            assert await page.locator("h1").all_inner_texts() == [current]


@pytest.mark.parametrize("script", [True, False])
async def test_on_a_phone_a_menu_leads_to_every_view(
    up: Governed, browser: Browser, script: bool
) -> None:
    async with visiting(browser, up, width=390, script=script) as page:
        assert not await page.locator("nav.parts").is_visible()
        await page.click("text=Menu")
        await page.locator("nav.parts >> text=Budgets").focus()
        await page.keyboard.press("Escape")
        assert not await page.locator("nav.parts").is_visible()
        await page.keyboard.press("Enter")
        await page.click("nav.parts >> text=Budgets")
        await page.wait_for_selector("h1 >> text=Budgets")


async def test_a_keyboard_skips_the_navigation_and_filters_events(
    up: Governed, browser: Browser
) -> None:
    async with visiting(browser, up) as page:
        await page.goto(f"{up.up.url}/admin/view/budgets")
        await page.keyboard.press("Tab")
        skip = await page.evaluate("document.activeElement.className")
        await page.keyboard.press("Enter")
        there = await page.evaluate("document.activeElement.id")
        await page.locator("nav.parts >> text=Events").focus()
        await page.keyboard.press("Enter")
        await page.wait_for_selector("h1 >> text=Events")
        await page.locator("[name=kind]").focus()
        await page.keyboard.type("circuit open")
        await page.keyboard.press("Tab")
        await page.keyboard.type("no-such-model")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=No event matches.")

    assert (skip, there) == ("skip", "main")
    assert "kind=circuit_opened&model=no-such-model" in page.url


@pytest.mark.parametrize("script", [True, False])
async def test_a_reader_switches_the_language_and_stays_on_the_page(
    up: Governed, browser: Browser, script: bool
) -> None:
    async with visiting(browser, up, script=script) as page:
        await page.goto(f"{up.up.url}/admin/view/budgets?key=crawler")
        await page.click("text=简体中文")
        assert page.url.endswith("/admin/view/budgets?key=crawler")
        assert await page.locator("html").get_attribute("lang") == "zh-CN"
        assert await page.inner_text("h1") == "预算"
        await page.goto(f"{up.up.url}/admin/view/limits")
        assert await page.inner_text("h1") == "限流"
        await page.click("text=English")
        assert await page.inner_text("h1") == "Limits"


async def test_a_key_is_issued_and_revoked_by_keyboard_without_a_script(
    up: Governed, browser: Browser
) -> None:
    async with visiting(browser, up, script=False) as page:
        await page.click("nav.parts >> text=Keys")
        await page.locator("summary").first.focus()
        await page.keyboard.press("Enter")
        await page.fill("[name=name]", "by-keyboard")
        await page.keyboard.press("Enter")
        secret = await page.input_value("#secret")
        assert not await page.locator("[data-copy]").is_visible()
        await page.locator("#act-revoke summary").focus()
        await page.keyboard.press("Enter")
        await page.locator("#act-revoke [name=confirm]").focus()
        await page.keyboard.press("Space")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=The key is revoked.")

    assert secret.startswith("sk-strw-")
    assert up.keys().find("by-keyboard").revoked is not None


async def test_the_browser_asks_for_the_confirmation_first(up: Governed, browser: Browser) -> None:
    async with visiting(browser, up) as page:
        await page.goto(f"{up.up.url}/admin/view/keys/ci")
        await page.click("#act-disable summary")
        await page.click("#act-disable button")
        assert await page.locator("#act-disable [name=confirm]:invalid").count() == 1
        assert not up.keys().find("ci").disabled
        await page.check("#act-disable [name=confirm]")
        await page.click("#act-disable button")
        await page.wait_for_selector("text=The key is disabled.")

    assert up.keys().find("ci").disabled


async def test_a_new_secret_is_copied_with_a_click(up: Governed, browser: Browser) -> None:
    async with visiting(browser, up) as page:
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.goto(f"{up.up.url}/admin/view/keys/ranker")
        await page.click("#act-rotate summary")
        await page.check("#act-rotate [name=confirm]")
        await page.click("#act-rotate button")
        secret = await page.input_value("#secret")
        await page.click("[data-copy]")
        await page.wait_for_selector("text=Copied")
        copied = await page.evaluate("navigator.clipboard.readText()")

    assert copied == secret
    assert len(secret) == 57
