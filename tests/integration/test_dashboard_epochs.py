"""What the page draws of epochs that are read now."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.test_dashboard_pages import KEY, STATUS, served
from tests.support.aio import on_loop
from tests.support.browser import browser
from tests.support.dashboard_served import seen
from tfquiver.cli.dashboard import web_server
from tfquiver.service.coordinator.past.past import Past


@on_loop
async def test_an_epoch_is_drawn_from_when_it_is_read_and_not_when_the_coordinator_has_looked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (session,) = STATUS["sessions"]
    reading = STATUS | {"sessions": [session | {"epoch": 3, "acked": 5, "state": "open", "ended": False, "readers": 1}]}
    empty = Past().told(1e9, False, [], "") | {"decisions": []}
    of = web_server.application
    monkeypatch.setattr("tests.contract.test_dashboard_pages.application", lambda feed, _, key: of(feed, told, key))

    def told(day: bool, jobs: list[str], digest_id: str) -> dict[str, Any]:
        return empty  # it has not looked yet

    async with served(lambda: reading) as (_, port):
        drawn = await asyncio.to_thread(_epochs_drawn, f"http://127.0.0.1:{port}/?key={KEY}")
    assert drawn.startswith("Epochs of 1 job. name: epoch 3, 50%")


def _epochs_drawn(link: str) -> str:
    with browser() as driver:
        driver.get(link)
        seen(driver, "the past", lambda text: "Epochs" in text)
        labels = "return [...document.querySelectorAll('canvas')].map(one => one.getAttribute('aria-label') ?? '')"
        return next(iter(one for one in driver.execute_script(labels) if one.startswith("Epochs of")), "none")
