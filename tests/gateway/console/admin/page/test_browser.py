"""The page in a real browser: updates, chat, layout on a phone, content security policy."""

import json
import re
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import httpx
import msgspec
import pytest
from playwright.async_api import Browser, ConsoleMessage, Page

from strowger_gateway.gateway.console.admin.page.chat import chat_section
from strowger_gateway.gateway.experiments.report import Report
from strowger_gateway.gateway.routing.planning.enrolment import ExperimentStatus
from tests.gateway.console.admin.browser import browsing, chromium
from tests.gateway.console.admin.page.crowd import KEY, ask, crowded, remember
from tests.gateway.console.admin.page.test_experiments import report, shown
from tests.gateway.console.admin.page.trial import EXPERIMENT, REMOVED
from tests.gateway.experiments.recorded_gateway import stand
from tests.gateway.serving import Serving

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        chromium() is None, reason="no Chromium: apt-get install chromium-headless-shell"
    ),
]
SLOW_MS = 5000
"""What a browser shows takes less, or never comes."""


@pytest.fixture(scope="module")
async def up(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Serving]:
    async with crowded(tmp_path_factory.mktemp("run"), more=EXPERIMENT) as up:
        stand(up, ExperimentStatus(epoch=1))
        remember(up, time.time())
        await ask(up, 20)
        yield up


@pytest.fixture(scope="module")
async def browser() -> AsyncGenerator[Browser]:
    async with browsing() as browser:
        yield browser


@pytest.fixture
async def complaints() -> list[str]:
    """Errors logged by the browser: policy violations, scripts, missing files."""
    return []


@pytest.fixture
async def page(up: Serving, browser: Browser, complaints: list[str]) -> AsyncGenerator[Page]:
    """A page after signing in."""

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    async with AsyncExitStack() as stack:
        context = await browser.new_context(viewport={"width": 1280, "height": 900})
        stack.push_async_callback(context.close)
        page = await context.new_page()
        page.set_default_timeout(SLOW_MS)
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(f"{up.url}/admin")
        await page.fill("input[name=key]", KEY)
        await page.click("text=Sign in")
        await page.wait_for_selector("#traffic")
        yield page
    assert complaints == []


async def test_backends_show_how_they_are_and_every_plot_has_its_lines(page: Page) -> None:
    rows = await page.locator("#models tbody tr").all_inner_texts()
    lines = [
        await plot.locator(".axes .line").count() for plot in await page.locator(".plot").all()
    ]

    health = {row.split()[0]: row for row in rows}
    assert "healthy" in health["north/large"]
    assert "circuit open" in health["south/large"]
    assert lines == [4, 3, 3, 3], "of each backend, and in the first one of what was refused"


async def test_every_value_of_a_chart_can_be_read_by_pointer_and_by_keys(page: Page) -> None:
    axes = page.locator("#plot-rate .axes")
    row = page.locator("#plot-rate .values tbody tr")
    await page.click("text=Pause")

    await axes.focus()
    newest = await axes.get_attribute("aria-valuetext")
    await page.keyboard.press("ArrowLeft")
    before = await axes.get_attribute("aria-valuetext")
    shown = await axes.locator(".reading").inner_text()
    await page.keyboard.press("Home")
    oldest = await axes.get_attribute("aria-valuetext")
    await page.keyboard.press("Escape")
    gone = await axes.locator(".reading").count()
    await axes.locator("svg").hover()
    hovered = await axes.locator(".reading").count()

    times = [await row.nth(place).locator("th").text_content() for place in (-1, -2, 0)]
    assert [str(text).split(", ")[0] for text in (newest, before, oldest)] == times
    assert shown.replace("\n", ", ") == before
    assert "north/large: " in str(before)
    assert (gone, hovered) == (0, 1)


async def test_a_chart_that_is_read_by_keys_is_still_read_after_a_refresh(page: Page) -> None:
    axes = page.locator("#plot-latency .axes")
    await axes.focus()
    await page.keyboard.press("ArrowLeft")

    async with page.expect_response("**/live"):
        pass
    await page.wait_for_timeout(100)

    assert await page.evaluate("document.activeElement.dataset.plot") == "latency"
    assert await axes.locator(".reading").count() == 1


@pytest.mark.parametrize("link", ["#problems a", "#models td a"])
async def test_a_link_keeps_the_focus_over_a_refresh(page: Page, link: str) -> None:
    found = page.locator(link).first
    await found.focus()
    href = await found.get_attribute("href")
    await page.evaluate("document.activeElement.closest('[data-live]').dataset.old = 'yes'")

    for _ in range(2):  # the first may have begun before
        async with page.expect_response("**/live"):
            pass
    await page.wait_for_timeout(100)

    assert await page.evaluate("document.activeElement.getAttribute('href')") == href
    assert await page.locator("[data-live][data-old]").count() == 0, "it was replaced"


async def test_the_traffic_of_one_backend_is_chosen_in_a_form(page: Page) -> None:
    await page.select_option("#traffic-filters select[name=backend]", "north/large")
    await page.select_option("#traffic-filters select[name=quantile]", "p50")
    await page.click("#traffic-filters button")
    await page.wait_for_selector("#traffic")

    assert "backend=north%2Flarge" in page.url
    assert await page.locator("#plot-rate .legend .name").all_inner_texts() == ["north/large"]
    assert await page.locator("#plot-latency .unit").inner_text() == "p50"
    assert await page.locator("#traffic-filters a").inner_text() == "Show everything"


async def test_a_request_shows_up_by_itself(page: Page, up: Serving) -> None:
    before = await page.locator("#traffic .tile .more").first.inner_text()

    await ask(up, 3)

    await page.wait_for_function(
        "before => document.querySelector('#traffic .tile .more').textContent !== before",
        arg=before,
    )


async def test_a_paused_page_waits(page: Page, up: Serving) -> None:
    await page.click("text=Pause")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    await page.wait_for_timeout(2300)
    async with page.expect_response("**/live"):
        await page.click("text=Resume")

    assert [url.rpartition("/")[2] for url in asked] == ["live"]


async def test_an_answer_names_its_backend_and_is_never_markup(page: Page) -> None:
    await page.fill("textarea", "<img src=x onerror=alert(1)>")
    await page.press("textarea", "Enter")

    facts = await page.inner_text("#talk .theirs .facts")
    question = await page.inner_text("#talk .mine")
    answer = await page.inner_text("#talk .theirs p")

    assert question == "<img src=x onerror=alert(1)>"
    assert await page.locator("#talk img").count() == 0
    assert answer.startswith("17 + 25 = 42.")
    assert "north/large" in facts
    assert "TTFT" in facts


@pytest.mark.parametrize("api", ["messages", "responses"])
async def test_the_box_talks_over_the_apis_of_agents(page: Page, api: str) -> None:
    await page.select_option("select[name=api]", api)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for number in range(2):
        await page.fill("textarea", "What is 17 + 25?")
        await page.press("textarea", "Enter")
        facts = await page.locator("#talk .theirs .facts").nth(number).inner_text()
        answer = await page.locator("#talk .theirs p").nth(number).inner_text()

        assert answer.startswith("17 + 25 = 42.")
        assert "north/large" in facts
        assert re.search(r"\d+ \+ \d+ tokens", facts), facts

    assert sum(url.endswith(f"/v1/{api}") for url in asked) == 2


async def test_the_box_sends_the_user_and_shows_the_variant(page: Page) -> None:
    await page.select_option("#talk select[name=model]", "small")
    told: list[str] = []
    for user in ("", "session-1"):
        await page.fill("input[name=user]", user)
        await page.fill("textarea", "What is 17 + 25?")
        await page.press("textarea", "Enter")
        last = page.locator("#talk .theirs .facts").nth(len(told))
        told.append(await last.inner_text())

    variants = [re.findall("control|larger", text) for text in told]
    assert [len(found) for found in variants] == [0, 1]


async def test_dark_follows_the_system_until_it_is_switched(page: Page) -> None:
    async def ground() -> str:
        return await page.evaluate("getComputedStyle(document.body).backgroundColor")

    light = await ground()
    await page.emulate_media(color_scheme="dark")
    dark = await ground()
    await page.click("[data-theme-switch]")
    switched = await ground()
    await page.reload()
    kept = await ground()

    assert light != dark
    assert (switched, kept) == (light, light)


async def test_on_a_phone_nothing_is_wider_than_the_screen(page: Page) -> None:
    await page.set_viewport_size({"width": 360, "height": 740})

    widest = await page.evaluate(
        "Math.max(...[...document.querySelectorAll('body *')].filter(one =>"
        " !one.closest('svg')).map(one => one.getBoundingClientRect().right))"
    )

    assert widest <= 360


@pytest.mark.parametrize("width", [360, 1010, 1280])
async def test_the_box_that_asks_for_a_user_and_a_key_fits(page: Page, width: int) -> None:
    await page.set_viewport_size({"width": width, "height": 740})

    beyond = await page.evaluate(
        """section => {
            const box = document.querySelector("#chat");
            box.outerHTML = section;
            const edge = document.querySelector("#talk").getBoundingClientRect().right;
            return [...document.querySelectorAll("#talk *")]
                .filter(one => one.getBoundingClientRect().right > edge).map(one => one.outerHTML);
        }""",
        chat_section(["small"], keys=True, experiments=[REMOVED]),
    )

    assert beyond == []


async def test_on_a_phone_every_number_of_an_experiment_can_be_read(page: Page) -> None:
    await page.set_viewport_size({"width": 360, "height": 740})
    plain = msgspec.to_builtins(report())
    long = json.loads(json.dumps(plain).replace("-0.05", "-0.01234").replace("0.25", "0.01321"))

    cut = await page.evaluate(
        """section => {
            document.querySelector("main").insertAdjacentHTML("beforeend", section);
            const cells = [...document.querySelectorAll("main > :last-child td")];
            return cells.filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText);
        }""",
        shown(msgspec.convert(long, Report)),
    )

    assert cut == []


async def test_without_scripts_everything_but_the_box_can_be_read(
    browser: Browser, up: Serving
) -> None:
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    page.set_default_timeout(SLOW_MS)
    await page.goto(f"{up.url}/admin")
    await page.fill("input[name=key]", KEY)
    await page.click("text=Sign in")

    await page.click("text=15m")
    text = await page.inner_text("main")
    ground = page.locator("[data-theme-switch]")

    assert page.url.endswith("window=15m")
    assert re.search(r"circuit open · probe in \d+ s|half-open · prob(ing|e due)", text)
    assert "needs JavaScript" in text
    assert not await ground.is_visible()
    await context.close()


async def test_signs_can_be_read_on_what_they_are_on(up: Serving) -> None:
    """4.5:1, https://www.w3.org/WAI/WCAG22/Understanding/contrast-minimum.html"""
    async with httpx.AsyncClient(base_url=up.url) as client:
        css = (await client.get("/admin/static/page.css")).text
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", css)
    colours = {name: (light, dark) for name, light, dark in found}

    poor = {
        (sign, ground, theme): round(contrast, 2)
        for sign in ("warn", "bad", "good", "soft", "ink")
        for ground in ("ground", "raised", "bad-soft")
        for theme in (0, 1)
        for contrast in [_contrast(colours[sign][theme], colours[ground][theme])]
        if contrast < 4.5
    }
    assert poor == {}


def _contrast(one: str, other: str) -> float:
    lights = sorted(map(_luminance, (one, other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
