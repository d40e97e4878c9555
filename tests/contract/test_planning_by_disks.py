"""Plans are made with what the nodes' disks have room for, where that is less than their quotas."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.planning import FIRST, FIRST_BYTES, beat, cached, coordinating, parts_of, plans, reads
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.policies import registry
from tfquiver.sizes_durations_amounts.amounts import of_bytes

QUOTA = 2 * FIRST_BYTES


@on_loop
async def test_what_is_explained_is_what_the_disk_can_keep(tmp_path: Path) -> None:
    """It was all of it, by the quota, beside the part that stood there."""
    clock, half = ManualClock(), FIRST_BYTES // 2
    async with coordinating(tmp_path, policy="silod_greedy", clock=clock, a=QUOTA) as coordinator:
        await reads(coordinator, "job", FIRST)
        planning = await plans(coordinator)
        assert (await planning.explain("job")).gets.hit_ratio == 1.0, "an older node does not tell"
        beat(coordinator, "a", QUOTA, disk_room_bytes=half)
        clock.advance(11.0)
        planning = await plans(coordinator)
        gets = (await planning.explain("job")).gets
        assert (cached(coordinator, FIRST).allocation_bytes, gets.allocation.cache_bytes) == (half, half)
        assert gets.hit_ratio == pytest.approx(0.5, abs=0.01)
        beat(coordinator, "a", QUOTA, disk_room_bytes=QUOTA)
        clock.advance(11.0)
        planning = await plans(coordinator)
        assert (await planning.explain("job")).gets.hit_ratio == 1.0


@pytest.mark.parametrize("policy", sorted(registry.names()))
@on_loop
async def test_where_no_disk_takes_anything_there_is_a_plan_all_the_same(tmp_path: Path, policy: str) -> None:
    clock = ManualClock()
    async with coordinating(tmp_path, policy=policy, clock=clock) as coordinator:
        beat(coordinator, "a", QUOTA, disk_room_bytes=0)
        await reads(coordinator, "job", FIRST)
        planning = await plans(coordinator)
        assert not planning.planner.refused
        assert (await planning.explain("job")).gets.hit_ratio == 0.0
        beat(coordinator, "a", QUOTA, disk_room_bytes=QUOTA)
        clock.advance(11.0)
        planning = await plans(coordinator)
        assert not planning.planner.refused
        if policy == "silod_greedy":
            assert cached(coordinator, FIRST).mode == types_pb2.CACHE_MODE_UNIFORM


@on_loop
async def test_logs_that_come_and_go_on_one_node_after_the_other_change_no_plan(tmp_path: Path) -> None:
    """Each plan was another one, and told to all nodes."""
    clock, rooms = ManualClock(), [FIRST_BYTES // 40] * 40
    async with coordinating(tmp_path, policy="silod_greedy", clock=clock) as coordinator:
        for step in range(20):
            for at, disk_bytes in enumerate(rooms):
                beat(coordinator, str(at), QUOTA // 40, disk_room_bytes=disk_bytes)
            await reads(coordinator, "job", FIRST)
            planning = await plans(coordinator)
            clock.advance(11.0)
            rooms[step] += QUOTA // 40 // 40 * (-1) ** step
        assert len(planning.planner.history) == 1


@on_loop
async def test_what_a_person_gives_no_size_gets_what_the_disks_have_room_for(tmp_path: Path) -> None:
    """Chunks were ordered for all of the quota, and nobody could keep them."""
    async with coordinating(tmp_path) as coordinator:
        beat(coordinator, "a", QUOTA, disk_room_bytes=FIRST_BYTES // 2)
        await coordinator.catalogue.register(FIRST.name, b"", None, parts_of(FIRST))
        asked = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_COOPERATIVE)
        assert (await coordinator.catalogue.set_cache(FIRST.digest_id, asked)).allocation_bytes == FIRST_BYTES // 2
        beat(coordinator, "a", QUOTA, disk_room_bytes=0)
        with pytest.raises(errors.ResourceExhaustedError, match="quotas and disks have room for 0 B: make room there"):
            await coordinator.catalogue.set_cache(FIRST.digest_id, asked)


@on_loop
async def test_a_size_that_the_disks_have_no_room_for_is_refused_as_by_quotas(tmp_path: Path) -> None:
    """Plans gave all others' room for it, and nobody could keep it. Which of both refuses is said."""
    half = FIRST_BYTES // 2
    async with coordinating(tmp_path) as coordinator:
        beat(coordinator, "a", QUOTA, disk_room_bytes=half)
        await coordinator.catalogue.register(FIRST.name, b"", None, parts_of(FIRST))
        asked = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_UNIFORM, allocation_bytes=FIRST_BYTES)
        with pytest.raises(errors.ResourceExhaustedError) as refused:
            await coordinator.catalogue.set_cache(FIRST.digest_id, asked)
        room = of_bytes(half)
        assert f"more than the {room} that are left: the live nodes' disks have room for {room} (their quotas" in str(
            refused.value
        )
        too_much = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_UNIFORM, allocation_bytes=QUOTA + 1)
        beat(coordinator, "a", QUOTA, disk_room_bytes=2 * QUOTA)
        with pytest.raises(errors.ResourceExhaustedError, match=f"nodes' quotas are {of_bytes(QUOTA)}, of which"):
            await coordinator.catalogue.set_cache(FIRST.digest_id, too_much)
        assert (await coordinator.catalogue.set_cache(FIRST.digest_id, asked)).allocation_bytes == FIRST_BYTES
        beat(coordinator, "a", QUOTA, disk_room_bytes=half)
        again = await coordinator.catalogue.set_cache(FIRST.digest_id, asked)
        assert again.allocation_bytes == FIRST_BYTES, "what it has it keeps"
