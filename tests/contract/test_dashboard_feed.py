"""The dashboard asks only while somebody looks, not everybody each time, and goes on after whatever goes wrong."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from tests.unit.test_status_tables import told
from tfquiver import errors
from tfquiver.cli.dashboard import feed as feed_module
from tfquiver.cli.dashboard.feed import Feed


def status() -> dict[str, Any]:
    return told("many") | {"going_on": [], "store": None}


async def first(feed: Feed, count: int) -> list[dict[str, Any]]:
    found = []
    async with aclosing(feed.follow()) as news:
        while len(found) < count:
            found.append(json.loads(await asyncio.wait_for(anext(news), 30)))
    return found


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "EVERY_S", 0.02)


def test_nobody_is_asked_when_nobody_looks_and_who_comes_later_sees_nothing_old() -> None:
    asked = 0

    def ask() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return status() | {"coordinator": f"asked-{asked}"}

    async def run() -> None:
        feed = Feed(ask)
        await first(feed, 1)
        for _ in range(1000):
            before = asked
            await asyncio.sleep(0.1)
            if asked == before:
                break
        assert asked == before
        (seen,) = await first(feed, 1)
        assert seen["coordinator"] == f"asked-{before + 1}"
        await feed.close()

    asyncio.run(run())


def test_whatever_goes_wrong_is_told_and_the_next_question_asked() -> None:
    wrong: list[Exception | None] = [errors.UnavailableError("away"), KeyError("nonsense"), None]

    def ask() -> dict[str, Any]:
        if error := wrong.pop(0) if wrong else None:
            raise error
        return status()

    seen = asyncio.run(first(Feed(ask), 3))
    assert [one.get("error", "") for one in seen] == ["away", "tfquiver dashboard: 'nonsense'", ""]


def test_pages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "MOST_LOOKERS", 1)

    async def run() -> None:
        feed = Feed(status)
        async with aclosing(feed.follow()) as news:
            await anext(news)
            with pytest.raises(errors.ResourceExhaustedError):
                await anext(feed.follow())
        await feed.close()

    asyncio.run(run())
