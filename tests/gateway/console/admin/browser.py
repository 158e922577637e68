"""Find and start a headless Chromium; tests skip without one."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Return the path of a Chromium, or `None`."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


@asynccontextmanager
async def browsing() -> AsyncGenerator[Browser]:
    """Run a browser until the block ends. As root without sandbox: it only opens our own pages."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            await browser.close()
