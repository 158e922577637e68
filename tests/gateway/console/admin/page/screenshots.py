"""Screenshots of the page at /admin for the documentation: light, dark, on a phone, and two parts.

python -m tests.gateway.console.admin.page.screenshots    (`make screenshots`)
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
from playwright.async_api import Browser, FloatRect, Page

from tests.gateway.console.admin.browser import browsing, chromium
from tests.gateway.console.admin.governance.governed import PAYERS, governed, use
from tests.gateway.console.admin.page.crowd import KEY, ask, crowded, remember
from tests.gateway.console.admin.page.trial import EXPERIMENT, ExperimentRecords
from tests.gateway.serving import Serving

FOLDER = Path(__file__).parents[5] / "docs" / "images"


_PICTURES = (
    ("admin-light", "light", 1280),
    ("admin-dark", "dark", 1280),
    ("admin-phone", "light", 390),
)


async def main() -> None:
    if chromium() is None:
        sys.exit("no Chromium here: apt-get install chromium-headless-shell")
    FOLDER.mkdir(parents=True, exist_ok=True)
    async with browsing() as browser:
        for name, theme, width in _PICTURES:
            with tempfile.TemporaryDirectory() as run_dir:
                records = ExperimentRecords(Path(run_dir))
                async with crowded(Path(run_dir), more=EXPERIMENT, equip=records.equip) as up:
                    records.add_removed(time.time())
                    await records.add_history(up.state, time.time(), steps=40, units=30)
                    remember(up, time.time())
                    await ask(up, 13)
                    await _picture(browser, up, name, theme, width)
                records.store.close()
        with tempfile.TemporaryDirectory() as run_dir:
            async with governed(Path(run_dir)) as up:
                for key, team, user, tags in PAYERS:
                    up.issue(key, team=team, user=user, tags=tags)
                use(up.store)
                for part in ("keys", "spend"):
                    await _part(browser, up.up, part)


async def _part(browser: Browser, up: Serving, part: str) -> None:
    """Take a picture of a part that has its own address."""
    context = await browser.new_context(viewport={"width": 1280, "height": 500})
    page = await context.new_page()
    await sign_in(page, up.url)
    await page.goto(f"{up.url}/admin/view/{part}")
    picture = FOLDER / f"admin-{part}.png"
    await page.screenshot(path=picture, full_page=True)
    _shrink(picture)
    print(picture, f"{picture.stat().st_size / 1e3:.0f} kB")
    await context.close()


async def _picture(browser: Browser, up: Serving, name: str, theme: str, width: int) -> None:
    context = await browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if theme == "dark" else "light",
        device_scale_factor=1 if width > 500 else 1.5,
    )
    page = await context.new_page()
    await sign_in(page, up.url)
    await page.fill("textarea", "What is 17 + 25?")
    await page.click("#talk button")
    await page.wait_for_selector("#talk .theirs .facts")
    await page.evaluate("document.activeElement.blur()")
    row = page.locator("#decisions details", has=page.locator(".tag.warn")).first
    await row.locator("summary").click()
    await page.evaluate("scrollTo(0, 0)")
    picture = FOLDER / f"{name}.png"
    height = 1640 if width < 500 else await page.evaluate("document.body.scrollHeight")
    clip: FloatRect = {"x": 0, "y": 0, "width": width, "height": height}
    await page.screenshot(path=picture, full_page=True, clip=clip)
    _shrink(picture)
    print(picture, f"{picture.stat().st_size / 1e3:.0f} kB")
    await context.close()


def _shrink(picture: Path) -> None:
    """Reduce to 256 colours if pngquant is installed: a quarter of the size."""
    if program := shutil.which("pngquant"):
        subprocess.run(
            [program, "--force", "--strip", "--speed", "1", "--output", picture, picture],
            check=True,
        )


async def sign_in(page: Page, url: str) -> None:
    await page.goto(f"{url}/admin")
    await page.fill("input[name=key]", KEY)
    await page.click("button.primary")
    await page.wait_for_selector("#traffic")


if __name__ == "__main__":
    anyio.run(main)
