"""A real browser, headless: Debian's Chromium and its driver."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

QUIET = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,800",
)


@contextmanager
def browser(profile: Path) -> Iterator[Chrome]:
    """A browser with a new profile; the test is skipped where none is installed."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium is installed (on Debian: apt-get install chromium chromium-driver)")
    options = ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (*QUIET, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    made = Chrome(options=options, service=ChromeService(driver))
    try:
        yield made
    finally:
        made.quit()


def complaints(page: Chrome) -> list[str]:
    """What the console of a page has as errors: scripts that failed, files that are missing, what the page's policy forbids."""
    return [entry["message"] for entry in page.get_log("browser") if entry["level"] == "SEVERE"]
