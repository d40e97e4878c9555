"""The nodes that there were before a coordinator was started again: heard of all of them, as many as there are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, started
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_caching.caching import LONGEST_MEETING_S, MEETING_S
from tfquiver.service.coordinator.options import CoordinatorOptions


@asynccontextmanager
async def again(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Coordinator]:
    """It knows what the one before it has written."""
    async with started(tmp_path):
        pass
    coordinator = Coordinator(tmp_path / "work", CoordinatorOptions(node_timeout_s=1000.0), clock)
    await coordinator.start()
    try:
        yield coordinator
    finally:
        await coordinator.stop()


@on_loop
async def test_while_one_comes_after_the_other_there_are_more_to_come(tmp_path: Path) -> None:
    """A thousand nodes beat up to 5 s apart: three seconds after a restart a third of them has not been heard."""
    clock = ManualClock(100.0)
    async with again(tmp_path, clock) as coordinator:
        for node in range(10):
            assert not coordinator.caching.met
            clock.advance(0.5)
            beat(coordinator, f"n{node}")
        clock.advance(0.9)
        assert not coordinator.caching.met, "the last one came less than a second ago"
        clock.advance(0.2)
        assert coordinator.caching.met
        beat(coordinator, "one more")
        assert coordinator.caching.met, "who is met is met"


@on_loop
async def test_a_few_are_met_in_the_time_that_signs_of_life_of_few_are_apart(tmp_path: Path) -> None:
    clock = ManualClock(100.0)
    async with again(tmp_path, clock) as coordinator:
        clock.advance(MEETING_S - 1.1)
        beat(coordinator)
        clock.advance(1.0)
        assert not coordinator.caching.met
        clock.advance(0.2)
        assert coordinator.caching.met


@on_loop
async def test_nodes_that_come_for_ever_are_not_waited_for(tmp_path: Path) -> None:
    clock = ManualClock(100.0)
    async with again(tmp_path, clock) as coordinator:
        for node in range(int(2 * LONGEST_MEETING_S)):
            assert not coordinator.caching.met
            clock.advance(0.5)
            beat(coordinator, f"n{node}")
        assert coordinator.caching.met


@on_loop
async def test_a_coordinator_that_stops_deletes_nothing_that_it_does_not_know_to_be_read(tmp_path: Path) -> None:
    async with again(tmp_path, ManualClock(100.0)) as coordinator:
        deleting = asyncio.create_task(coordinator.catalogue.delete(EVERYBODY, DIGEST.digest_id, force=False))
        await asyncio.wait([deleting], timeout=0.1)
        assert not deleting.done()
        coordinator.release_waiters()
        with pytest.raises(errors.UnavailableError, match="before its nodes have come back"):
            async with asyncio.timeout(2):
                await deleting
        assert DIGEST.digest_id in coordinator.registry
