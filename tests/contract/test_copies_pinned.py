"""A pin of what is kept several times takes the room of all its copies, so that nobody else is promised it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, beat, started
from tests.support.digests import numbered_digest
from tests.support.named_here import of, until_done
from tests.support.planning import FIRST, FIRST_BYTES, coordinating, plans, reads
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.dataset_caching.placement import UNIFORM, Placement

WHOLE = Placement.whole_bytes(DIGEST)


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
        refused = rf"{2 * WHOLE} bytes \(2 of each shard\) are more than the {2 * WHOLE - 2} that are left"
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
