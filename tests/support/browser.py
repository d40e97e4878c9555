"""Chromium without a screen, driven by Selenium: for tests of pages."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
)  # fmt: skip
_LOAD_S = 60


@contextmanager
def browser(width: int = 1280, height: int = 900, dark: bool = False, *flags: str) -> Iterator[Any]:
    """A `webdriver.Chrome`; skips the test where Chromium or its driver is not installed."""
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium and chromium-driver (Debian's) are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*_FLAGS, *flags, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        made = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=driver))
        try:
            made.set_page_load_timeout(_LOAD_S)
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
            made.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            made.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
            yield made
        finally:
            made.quit()
