"""A pin of what is kept several times takes the room of all its copies, so that nobody else is promised it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, parts, started
from tests.support.digests import numbered_digest
from tests.support.named_here import OTHER, of, until_done
from tests.support.planning import FIRST, FIRST_BYTES, coordinating, plans, reads
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, types_pb2
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_caching.placement import UNIFORM, Placement

WHOLE = Placement.whole_bytes(DIGEST)


def beat_of(coordinator: Coordinator, rack: str, quota_bytes: int = 2 * WHOLE) -> None:
    """Of the node of a rack."""
    node = types_pb2.NodeInfo(node_id=f"{rack}0", quota_bytes=quota_bytes, labels={"rack": rack})
    inventory = coordinator_pb2.Inventory(full=True, version=1)
    coordinator.heartbeats.take(coordinator_pb2.HeartbeatRequest(node=node, incarnation="1", inventory=inventory))


@on_loop
async def test_each_copy_has_its_room(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        for node in "nm":
            beat(coordinator, node, quota_bytes=2 * WHOLE)
        spec = of("train", pin=True)
        spec.placement.CopyFrom(types_pb2.PlacementRule(replicas=2))
        await coordinator.named.create(EVERYBODY, spec)
        assert (await until_done(coordinator, "train")).pinned
        assert coordinator.caching.placement.pins[DIGEST.digest_id].allocation_bytes == 2 * WHOLE
        await coordinator.named.pin(EVERYBODY, "train", False)
        await until_done(coordinator, "train")
        part = types_pb2.CacheSetting(mode=UNIFORM, allocation_bytes=WHOLE // 2)
        assert (await coordinator.catalogue.set_cache(DIGEST.digest_id, part)).allocation_bytes == WHOLE // 2
        await coordinator.catalogue.unset_cache(DIGEST.digest_id)
        for node in "nm":
            beat(coordinator, node, quota_bytes=WHOLE - 1)
        refused = rf"{2 * WHOLE} bytes \(2 of each shard\) are more than the {2 * WHOLE - 2} bytes that are left"
        with pytest.raises(errors.ResourceExhaustedError, match=refused):
            await coordinator.named.pin(EVERYBODY, "train", True)
        await coordinator.catalogue.set_placement(DIGEST.digest_id, None)
        await coordinator.named.pin(EVERYBODY, "train", True)
        assert coordinator.caching.placement.pins[DIGEST.digest_id].allocation_bytes == WHOLE


@on_loop
async def test_no_plan_gives_the_room_of_the_other_copies_to_others(tmp_path: Path) -> None:
    other = numbered_digest(2000, "other")
    async with coordinating(tmp_path, a=2 * FIRST_BYTES, b=2 * FIRST_BYTES) as coordinator:
        await reads(coordinator, "job", FIRST)
        await reads(coordinator, "another", other)
        await coordinator.catalogue.set_placement(FIRST.digest_id, types_pb2.PlacementRule(replicas=2))
        pin = types_pb2.CacheSetting(mode=UNIFORM, allocation_bytes=FIRST_BYTES)
        assert (await coordinator.catalogue.set_cache(FIRST.digest_id, pin)).allocation_bytes == 2 * FIRST_BYTES
        planning = await plans(coordinator)
        view = await planning._views.view()
        assert view.cache_bytes == int(4 * FIRST_BYTES * 0.95) - FIRST_BYTES
        assert sum(one.allocation_bytes for one in coordinator.caching.placement.settings.values()) <= 4 * FIRST_BYTES
        assert coordinator.caching._share == 1.0


@on_loop
async def test_a_rack_that_comes_or_goes_changes_the_room_of_what_each_rack_keeps(tmp_path: Path) -> None:
    """A pin had the room of the copies that there were when it was made: another pin was promised what they took."""
    async with started(tmp_path) as coordinator:
        placement = coordinator.caching.placement
        coordinator.membership.leave("n", "1")  # it has no rack
        beat_of(coordinator, "a")
        spec = of("train", pin=True)
        spec.placement.CopyFrom(types_pb2.PlacementRule(rack_local=True))
        await coordinator.named.create(EVERYBODY, spec)
        assert (await until_done(coordinator, "train")).pinned
        for quota_bytes, has_bytes in ((2 * WHOLE, 2 * WHOLE), (0, WHOLE), (2 * WHOLE, 2 * WHOLE)):
            beat_of(coordinator, "b", quota_bytes)
            async with asyncio.timeout(20):  # who has come is weighed beside the loop
                while placement.pinned_bytes(DIGEST.digest_id) != has_bytes:
                    await until_done(coordinator, "train")
            told = await until_done(coordinator, "train")
            assert (told.pinned, told.reason, placement.pinned_bytes(DIGEST.digest_id)) == (True, "", has_bytes)
        for rack in "abc":
            beat_of(coordinator, rack, WHOLE * 3 // 4)
        told = await until_done(coordinator, "train")
        assert not told.pinned and "(3 of each shard)" in told.reason
        assert placement.pinned_bytes(DIGEST.digest_id) == 2 * WHOLE, "what it has it keeps"


@on_loop
async def test_a_rack_that_goes_while_room_is_being_taken_is_seen(tmp_path: Path) -> None:
    """The pin had the room of both racks until nodes changed again: who took it said that it was pinned, when who had
    seen the rack go had said that it was not."""
    async with started(tmp_path) as coordinator:
        placement = coordinator.caching.placement
        await coordinator.catalogue.register("", b"", None, parts(OTHER))
        coordinator.membership.leave("n", "1")
        beat_of(coordinator, "a", 9 * WHOLE)
        for name, digest in (("also", OTHER), ("train", DIGEST)):
            spec = of(name, digest, pin=True)
            spec.placement.CopyFrom(types_pb2.PlacementRule(rack_local=True))
            await coordinator.named.create(EVERYBODY, spec)
            assert (await until_done(coordinator, name)).pinned
        for turns in range(20):  # whoever takes it has come further each time
            beat_of(coordinator, "b", 9 * WHOLE)
            looks = [asyncio.ensure_future(coordinator.named.look()) for _ in range(2)]
            async with asyncio.timeout(20):
                while placement.pinned_bytes(DIGEST.digest_id) != 2 * WHOLE:
                    await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            beat_of(coordinator, "b", 0)
            await asyncio.gather(*looks, coordinator.named.look())
            async with asyncio.timeout(5):
                while placement.pinned_bytes(DIGEST.digest_id) != WHOLE:
                    await until_done(coordinator, "train")


@pytest.mark.slow
@on_loop
async def test_a_rack_that_has_come_while_there_was_no_coordinator_is_seen_by_the_next_one(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        coordinator.membership.leave("n", "1")
        beat_of(coordinator, "a")
        spec = of("train", pin=True)
        spec.placement.CopyFrom(types_pb2.PlacementRule(rack_local=True))
        await coordinator.named.create(EVERYBODY, spec)
        assert (await until_done(coordinator, "train")).pinned
    async with started(tmp_path) as coordinator:
        coordinator.membership.leave("n", "1")
        for rack in "ab":
            beat_of(coordinator, rack)
        assert (await until_done(coordinator, "train")).pinned
        assert coordinator.caching.placement.pinned_bytes(DIGEST.digest_id) == 2 * WHOLE
