"""Who watches is told of what is different, and costs next to nothing while nothing is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from tests.unit.test_status_tables import told
from tfquiver import errors
from tfquiver.cli.dashboard import feed as feed_module
from tfquiver.cli.dashboard.feed import Feed
from tfquiver.cli.status_asked_watched_explained import watching
from tfquiver.cli.status_tables_and_warnings import fitting
from tfquiver.service.coordinator.long_polls.changes import Changes
from tfquiver.service.metrics.loop_lag import LONGEST_PAUSE_S, PAUSE_S, next_pause_s


def test_who_waits_is_told_of_a_change_and_one_look_does_for_all() -> None:
    state, looks = 0, 0

    def shown() -> int:
        nonlocal looks
        looks += 1
        return state

    async def run() -> None:
        nonlocal state, looks
        changes = Changes(shown, 100)
        version = await changes.newer(0, 60)
        assert version > 100 and await changes.newer(version, 0) == version
        waiting = [asyncio.ensure_future(changes.newer(version, 60)) for _ in range(3)]
        await asyncio.sleep(0)
        looks = 0
        changes.look()
        assert looks == 1 and not any(one.done() for one in waiting)
        state = 1
        changes.look()
        assert await asyncio.gather(*waiting) == [version + 1] * 3
        looks = 0
        changes.look()
        assert looks == 0, "nobody waits"
        assert await changes.newer(version, 60) == version + 1, "of what has changed meanwhile one is told at once"

    asyncio.run(run())


def test_nobody_waits_where_a_coordinator_stops() -> None:
    async def run() -> None:
        changes = Changes(lambda: 0, 100)
        version = await changes.newer(0, 60)
        waiting = asyncio.ensure_future(changes.newer(version, 60))
        await asyncio.sleep(0)
        changes.release_waiters()
        assert await waiting == await changes.newer(version + 1, 60) == version + 1

    asyncio.run(run())


def test_pages_are_sent_what_is_new_and_now_and_then_that_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "EVERY_S", 0.01)
    answers: list[str | None] = ["first", None, None, "second"]
    asked = 0

    def ask() -> dict[str, Any] | None:
        nonlocal asked
        asked += 1
        name = answers.pop(0) if answers else None
        return None if name is None else told("x") | {"coordinator": name, "going_on": [], "store": None}

    async def run(count: int) -> list[dict[str, Any]]:
        feed, found = Feed(ask), []
        async with aclosing(feed.follow()) as news:
            while len(found) < count:
                found.append(json.loads(await asyncio.wait_for(anext(news), 60)))
        await feed.close()
        return found

    assert [one["coordinator"] for one in asyncio.run(run(2))] == ["first", "second"]
    monkeypatch.setattr(feed_module, "REPEATED_EVERY_S", 0.0)
    answers.append("third")
    repeated = asyncio.run(run(3))
    assert {one["coordinator"] for one in repeated} == {"third"}
    assert repeated[0]["now_s"] < repeated[2]["now_s"], "a page sees that the dashboard is there"


def test_a_terminals_page_is_laid_out_again_where_something_is_different() -> None:
    answers: list[Callable[[], dict[str, Any] | None]] = []
    pages = watching.Pages(lambda: answers.pop(0)(), has_keyboard=True)

    def refuse() -> None:
        raise errors.UnavailableError("away")

    def page(answer: Callable[[], dict[str, Any] | None], width: int = 80) -> list[str]:
        answers.append(answer)
        return pages.page(width, 50).plain.splitlines()[:-1]

    status = told("job-a") | {"going_on": [], "coordinator_up_ms": 1, "store": None, "mounts": []}
    first = page(lambda: status)
    assert page(lambda: None) == first
    assert page(lambda: None, 60) != first
    assert page(refuse) == ["! away"]
    assert page(lambda: status) == first


def test_a_page_is_laid_out_of_no_more_than_there_is_room_for() -> None:
    status = told("job-a") | {"going_on": [], "coordinator_up_ms": 1, "store": None, "mounts": []}
    (node, dead), (dataset,) = status["nodes"], status["datasets"]
    status["nodes"] = [node | {"labels": {"rack": "1"}}] * 1000 + [dead]
    status["datasets"] = [dataset | {"name": f"set-{number}"} for number in range(9_999)]
    status["datasets"].append(dataset | {"name": "moves", "moving_shards": 3, "moving_bytes": 5, "unmoved_shards": 0})
    status["problems"] = [f"problem {number}" for number in range(3000)]
    some, _ = fitting.cut(status, 29)
    assert [len(some[key]) for key in ("problems", "nodes", "datasets")] == [29, 30, 30]
    lines = watching.Pages(lambda: status, has_keyboard=True).page(80, 30).plain.splitlines()
    assert len(lines) == 30 and lines[0] == "! problem 0"
    left_out = int(lines[-1].partition("; ")[2].partition(" ")[0])
    assert 14_990 <= left_out <= 15_020
    status["problems"] = []
    assert "data set moves moves" in watching.Pages(lambda: status, has_keyboard=True).page(80, 30).plain
    pages = watching.Pages(iter([status, None, None]).__next__, has_keyboard=True)
    assert [len(pages.page(80, height).plain.splitlines()) for height in (20, 40, 20)] == [20, 40, 20]


@pytest.mark.parametrize(
    ("pause_s", "lag_s", "busy_share", "next_s"),
    [
        (PAUSE_S, 0.0, 0.0, 2 * PAUSE_S),
        (LONGEST_PAUSE_S, 0.0, 0.0, LONGEST_PAUSE_S),
        (LONGEST_PAUSE_S, 0.05, 0.0, PAUSE_S),
        (LONGEST_PAUSE_S, 0.0, 0.5, PAUSE_S),
    ],
)
def test_a_loop_that_has_nothing_to_do_is_asked_seldom(
    pause_s: float, lag_s: float, busy_share: float, next_s: float
) -> None:
    assert next_pause_s(pause_s, lag_s, busy_share) == next_s
