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
from tfquiver.service.coordinator.history_of_the_last_day.past import Past


@on_loop
async def test_an_epoch_is_drawn_from_when_it_is_read_and_not_when_the_coordinator_has_looked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await _drawn(monkeypatch, "name", Past())).startswith("Epochs of 1 job. name: epoch 3, 50%")


@pytest.mark.parametrize("letter", ["x", "🚂"])
@on_loop
async def test_a_job_with_a_long_name_is_drawn_once(monkeypatch: pytest.MonkeyPatch, letter: str) -> None:
    """The past has only the beginning of it; what reads now, and is chosen, has all."""
    job, past = letter * 300, Past()
    (session,) = STATUS["sessions"]
    for number in range(4):
        past.look(1e9 - 200 + 50 * number, {}, [(number, job, session["dataset"], b"d", number, 0.25)])
    drawn = await _drawn(monkeypatch, job, past)
    assert drawn.startswith(f"Epochs of 1 job. {job}: epoch 3, 25%")


async def _drawn(monkeypatch: pytest.MonkeyPatch, job: str, past: Past) -> str:
    """What is said of the drawing of epochs, of which that job reads the fourth."""
    (session,) = STATUS["sessions"]
    its = {"job": job, "epoch": 3, "acked": 5, "state": "open", "ended": False, "readers": 1}
    reading = STATUS | {"sessions": [session | its]}
    known = past.told(1e9, False, [], "") | {"decisions": []}
    of = web_server.application
    monkeypatch.setattr("tests.contract.test_dashboard_pages.application", lambda feed, _, key: of(feed, told, key))

    def told(day: bool, jobs: list[str], digest_id: str) -> dict[str, Any]:
        return known

    async with served(lambda: reading) as (_, port):
        return await asyncio.to_thread(_epochs_drawn, f"http://127.0.0.1:{port}/?key={KEY}")


def _epochs_drawn(link: str) -> str:
    with browser() as driver:
        driver.get(link)
        seen(driver, "the past", lambda text: "Epochs" in text)
        labels = "return [...document.querySelectorAll('canvas')].map(one => one.getAttribute('aria-label') ?? '')"
        return next(iter(one for one in driver.execute_script(labels) if one.startswith("Epochs of")), "none")
