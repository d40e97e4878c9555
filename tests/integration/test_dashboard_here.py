"""`tfquiver dashboard DIRECTORY`: the page of one machine's cache, light and dark, each text of it readable."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import tfquiver.reader
from tests.support import numbered
from tests.support.browser import browser
from tests.support.cluster import wait_until
from tests.support.contrast import LEAST, contrasts
from tests.support.daemons import daemons, end_daemons
from tests.support.dashboard_served import seen, served
from tfquiver.node_daemon_and_notes_in_directories import daemon as local
from tfquiver.node_daemon_and_notes_in_directories import endpoints

RECORDS, _STEP_S = 2000, 0.05
TABS = ("overview", "jobs", "data", "nodes", "decisions")
BACK = {False: "rgb(246, 248, 247)", True: "rgb(18, 22, 20)"}
# What a tab shows once all of it is there.
TELLS = {"overview": "Epochs", "jobs": "Waits for data", "data": "over time", "nodes": "used", "decisions": "part"}
paths = numbered.fixture(4, RECORDS // 4, 1000)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    cache_dir = tmp_path / "cache"
    stays = functools.partial(local.find_or_start, cache_dir, 1 << 30, idle_exit_s=600)  # also where tests are slow
    stays()
    try:
        yield cache_dir
    finally:
        endpoints.close_all()
        end_daemons(cache_dir)


def shown(driver: Any, tab: str) -> str:
    driver.execute_script(f"location.hash = 'tab={tab}'")
    return seen(driver, tab, lambda text: TELLS[tab] in text)


def unreadable(driver: Any) -> list[tuple[str, float]]:
    found = contrasts(driver)
    assert len(found) > 10, "hour and day, five tabs, what is on the tab"
    return [(text, round(ratio, 2)) for text, ratio in found if ratio < LEAST]


@contextmanager
def reading(cache: Path, paths: list[Path]) -> Iterator[None]:
    """A job that reads on and on, as fast as a training."""
    records = tfquiver.reader.records([str(path) for path in paths], cache_dir=str(cache), batch_size=100, job="trial")
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            for _ in records:
                if ended.wait(_STEP_S):
                    return

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def is_on(driver: Any, back: str) -> bool:
    return bool(driver.execute_script("return getComputedStyle(document.body).backgroundColor") == back)


@pytest.mark.long
def test_a_cache_directory_is_shown(cache: Path, paths: list[Path]) -> None:
    with reading(cache, paths), served(str(cache)) as link, browser() as driver:
        driver.get(link)
        text = seen(driver, "its figures", lambda text: "Epochs" in text and "1 job\n" in text)
        assert "1 node" in text
        assert "trial" in shown(driver, "jobs")
        assert "100%" in shown(driver, "data"), "all of it is cached"
        assert "of 1.1 GB" in shown(driver, "nodes")
        unlike: dict[bool, list[tuple[str, float]]] = {dark: [] for dark in BACK}
        driver.execute_script("addEventListener('tfquiver-theme', () => document.body.dataset.drawn = 'anew')")
        for dark, back in BACK.items():
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
            wait_until(functools.partial(is_on, driver, back), "the page is as the system is")
            for tab in TABS:
                shown(driver, tab)
                unlike[dark] += unreadable(driver)
        assert unlike == {False: [], True: []}
        assert driver.execute_script("return document.body.dataset.drawn") == "anew", "charts are as the system is, too"
        assert [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.long
def test_a_directory_whose_node_is_gone_is_said_and_readable(cache: Path) -> None:
    for dark in BACK:
        with browser(dark=dark) as driver, served(str(cache)) as link:
            driver.get(link)
            driver.get(f"http://{urlsplit(link).netloc}/#tab=nodes")
            shown(driver, "nodes")
            if not dark:
                continue
            end_daemons(cache)
            wait_until(
                lambda: driver.execute_script("return document.querySelectorAll('.problem').length") > 0, "a problem"
            )
            assert str(cache) in seen(driver, "what is wrong", bool)
            assert unreadable(driver) == []
    assert daemons(cache) == [], "looking starts none"
