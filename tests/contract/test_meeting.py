"""The nodes that there were before a coordinator was started again: heard of all of them, as many as there are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, started
from tests.support.named_here import OTHER, of, until_done
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, types_pb2
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_caching.caching import LONGEST_MEETING_S, MEETING_S
from tfquiver.service.coordinator.options import CoordinatorOptions

T = TypeVar("T")
_QUOTA_BYTES = 1_000_000  # two of these have room for DIGEST
FULL = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_UNIFORM, allocation_bytes=1_600_000)


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


async def _waits_for_nodes(
    call: Coroutine[Any, Any, T], clock: ManualClock, coordinator: Coordinator, quota_bytes: int = _QUOTA_BYTES
) -> T:
    """Until the second of two nodes is back, and no more are to come. The first one holds OTHER."""
    beat(coordinator, "n", quota_bytes=quota_bytes, holds=OTHER)
    waiting = asyncio.create_task(call)
    await asyncio.wait([waiting], timeout=0.1)
    assert not waiting.done()
    beat(coordinator, "m", quota_bytes=quota_bytes)
    clock.advance(MEETING_S)
    async with asyncio.timeout(LONGEST_MEETING_S / 2):
        return await waiting


@on_loop
async def test_where_it_is_to_be_kept_is_checked_against_the_nodes_that_come_back(tmp_path: Path) -> None:
    """`selector: no node matches` was said of nodes that were not heard of yet."""
    clock, twice = ManualClock(100.0), types_pb2.PlacementRule(replicas=2)
    async with again(tmp_path, clock) as coordinator:
        placing = coordinator.catalogue.set_placement(DIGEST.digest_id, twice)
        await _waits_for_nodes(placing, clock, coordinator)
        assert coordinator.caching.placed.rules.find(DIGEST.digest_id) == twice
    async with again(tmp_path, clock) as coordinator:
        spec = named_datasets_pb2.DatasetSpec(name="n", sources=["/data/*"], placement=twice)
        await _waits_for_nodes(coordinator.named.create(EVERYBODY, spec), clock, coordinator)
        with pytest.raises(errors.InvalidArgumentError, match="replicas: 3 are more than the 2 nodes"):
            await coordinator.catalogue.set_placement(DIGEST.digest_id, types_pb2.PlacementRule(replicas=3))


@on_loop
async def test_what_room_there_is_is_that_of_the_nodes_that_come_back(tmp_path: Path) -> None:
    """Without a size it was given, for good, what the first of them had; with one it was refused."""
    clock = ManualClock(100.0)
    for asked in (types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_LRU), FULL):
        async with again(tmp_path, clock) as coordinator:
            setting = coordinator.catalogue.set_cache(DIGEST.digest_id, asked)
            fixed = await _waits_for_nodes(setting, clock, coordinator)
            assert fixed.allocation_bytes > _QUOTA_BYTES
            await coordinator.catalogue.unset_cache(DIGEST.digest_id)


@on_loop
async def test_what_copies_take_is_counted_with_the_nodes_that_come_back(tmp_path: Path) -> None:
    """The first one alone has room for the size that is asked for, and would be all the copies there are."""
    clock = ManualClock(100.0)
    async with started(tmp_path) as coordinator:
        for node in ("n", "m"):
            beat(coordinator, node)
        await coordinator.catalogue.set_placement(DIGEST.digest_id, types_pb2.PlacementRule(replicas=2))
    async with again(tmp_path, clock) as coordinator:
        setting = coordinator.catalogue.set_cache(DIGEST.digest_id, FULL)
        await _waits_for_nodes(setting, clock, coordinator, quota_bytes=1 << 40)
        assert coordinator.caching.placed.copies(DIGEST.digest_id) == 2


@on_loop
async def test_what_nodes_that_come_back_have_room_for_is_neither_refused_nor_evicts(tmp_path: Path) -> None:
    clock = ManualClock(100.0)
    async with started(tmp_path) as coordinator:
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        for name, digest in (("wanted", DIGEST), ("other", OTHER)):
            await coordinator.named.create(EVERYBODY, of(name, digest))
            await until_done(coordinator, name)
    async with again(tmp_path, clock) as coordinator:
        coordinator.named._when_full = "dataset_lru"
        prefetching = coordinator.named.prefetch(EVERYBODY, "wanted")
        await _waits_for_nodes(prefetching, clock, coordinator)
        assert coordinator.named.find(EVERYBODY, "other").state == named_datasets_pb2.NamedDataset.STATE_READY


@on_loop
async def test_who_joins_later_and_is_still_telling_what_it_holds_is_not_waited_for(tmp_path: Path) -> None:
    """Of millions of entries a node tells for minutes: a prefetch waited twelve seconds for each that had just come."""
    clock = ManualClock(100.0)
    async with again(tmp_path, clock) as coordinator:
        clock.advance(2 * LONGEST_MEETING_S + 1)
        beat(coordinator, "old")
        joining = pb.HeartbeatRequest(incarnation="1", inventory=pb.Inventory(full=True, version=1, more=True))
        joining.node.node_id, joining.node.quota_bytes = "new", 1 << 40
        coordinator.heartbeats.take(joining)
        assert coordinator.caching.met and not coordinator.membership.all_told
        await asyncio.wait_for(coordinator.catalogue.nodes_met(are_told=True), 5)
