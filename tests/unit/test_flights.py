from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tfquiver.service.node.shards_from_disk_other_nodes_or_store.flights import Flights


class Thing:
    """Counts how many of it are open."""

    open = 0

    def __init__(self) -> None:
        Thing.open += 1

    def share(self) -> Thing:
        return Thing()

    def close(self) -> None:
        Thing.open -= 1
        assert Thing.open >= 0


@settings(max_examples=200)
@given(
    waiters=st.integers(1, 6),
    steps=st.lists(st.tuples(st.sampled_from(["cancel", "land", "join", "turn"]), st.integers(0, 5)), max_size=12),
    fails=st.booleans(),
)
def test_one_piece_of_work_and_nothing_left_open(waiters: int, steps: list[tuple[str, int]], fails: bool) -> None:
    """Readers come, go away and wait in any order around the landing."""

    async def run() -> None:
        Thing.open = 0
        flights: Flights[str, Thing] = Flights()
        landing = asyncio.Event()
        running = most = 0

        async def work() -> Thing:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await landing.wait()
            running -= 1
            if fails:
                raise ValueError("made to fail")
            return Thing()

        tasks = [asyncio.ensure_future(flights.join("key", work)) for _ in range(waiters)]
        for what, which in steps:
            match what:
                case "cancel":
                    tasks[which % len(tasks)].cancel()
                case "land":
                    landing.set()
                case "join":
                    tasks.append(asyncio.ensure_future(flights.join("key", work)))
                case "turn":
                    await asyncio.sleep(0)
        await asyncio.sleep(0)
        landing.set()
        got: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
        while "key" in flights:
            await asyncio.sleep(0)
        assert most <= 1
        things = [thing for thing in got if isinstance(thing, Thing)]
        assert fails <= (not things)
        assert Thing.open == len(things)

    asyncio.run(run())
