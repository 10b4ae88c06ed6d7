"""Chromium for the tests of the page."""

import contextlib
import shutil

import pytest

from tests.fetched import fetched, missing

_AXE_VERSION = "4.14.1"
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextlib.asynccontextmanager
async def chromium(*arguments):
    """Start the browser of the machine; without one the tests are skipped."""
    program = shutil.which("chromium")
    if program is None:
        missing("there is no chromium: apt install chromium")
    playwright_api = pytest.importorskip("playwright.async_api")
    async with playwright_api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=[*_ARGUMENTS, *arguments]
        )
        try:
            yield browser
        finally:
            await browser.close()


def axe():
    """Return the file of axe-core, which judges whether a page is accessible."""
    package = f"axe-core@{_AXE_VERSION}"
    folder = fetched(
        f"axe-core-{_AXE_VERSION}",
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", ".", package],
    )
    return folder / "node_modules/axe-core/axe.min.js"
