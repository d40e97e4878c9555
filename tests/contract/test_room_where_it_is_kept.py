"""Whether a data set fits, and what others would free, counts as often as it is kept, and on the nodes that keep it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, parts, started
from tests.support.named_here import OTHER, until_done
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.proto.tfquiver.v1.types_pb2 import PlacementRule
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.dataset_caching.placement import Placement
from tfquiver.sizes_durations_amounts.amounts import of_bytes

OTHERS_BYTES = int(OTHER.lengths.sum())  # DIGEST has these shards, too
LACKING_BYTES = Placement.whole_bytes(DIGEST) - OTHERS_BYTES


def holds_other(coordinator: Coordinator, node: str, rack: str, free_bytes: int = 0) -> None:
    inventory = coordinator_pb2.Inventory(full=True, version=2, added=[row.tobytes() for row in OTHER.hashes])
    request = coordinator_pb2.HeartbeatRequest(incarnation="1", inventory=inventory)
    request.node.node_id, request.node.labels["rack"] = node, rack
    request.node.used_bytes = 10 * LACKING_BYTES
    request.node.quota_bytes = request.node.used_bytes + free_bytes
    coordinator.heartbeats.take(request)


async def with_other(coordinator: Coordinator, wanted: PlacementRule) -> None:
    """Which is called "kept"; and DIGEST is "wanted", so placed."""
    await coordinator.catalogue.register("", b"", None, parts(OTHER))
    await coordinator.named.create(EVERYBODY, pb.DatasetSpec(name="kept", digest_id=OTHER.digest_id))
    spec = pb.DatasetSpec(name="wanted", digest_id=DIGEST.digest_id, placement=wanted)
    await coordinator.named.create(EVERYBODY, spec)
    assert (await until_done(coordinator, "wanted")).placed
    coordinator.named._when_full = "manual"


@on_loop
async def test_each_copy_takes_room_and_gives_some(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        for node in ("n", "m"):
            holds_other(coordinator, node, "r1", LACKING_BYTES - 1)
        await with_other(coordinator, PlacementRule(replicas=2))
        with pytest.raises(errors.ResourceExhaustedError) as refused:
            await coordinator.named.prefetch(EVERYBODY, "wanted")
    said = f"needs {of_bytes(2 * LACKING_BYTES)} and {of_bytes(2 * LACKING_BYTES - 2)} are free on all nodes"
    assert f"{said}: evict some of kept ({of_bytes(2 * OTHERS_BYTES)})" in str(refused.value)


@on_loop
async def test_room_elsewhere_is_none(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        holds_other(coordinator, "n", "r1")
        holds_other(coordinator, "m", "r2", 100 * LACKING_BYTES)
        await with_other(coordinator, PlacementRule(selector="rack=r1"))
        with pytest.raises(errors.ResourceExhaustedError) as refused:
            await coordinator.named.prefetch(EVERYBODY, "wanted")
    said = f"needs {of_bytes(LACKING_BYTES)} and 0 B are free on the nodes that may keep it: evict some of kept"
    assert f"{said} ({of_bytes(OTHERS_BYTES)})" in str(refused.value)


@on_loop
async def test_what_is_pinned_has_its_room(tmp_path: Path) -> None:
    """It was told so, and its prefetch was refused for want of it."""
    async with started(tmp_path) as coordinator:
        holds_other(coordinator, "n", "r1")
        await with_other(coordinator, PlacementRule(selector="rack=r1"))
        assert (await coordinator.named.pin(EVERYBODY, "wanted", True)).pinned
        for when_full in ("manual", "dataset_lru"):
            coordinator.named._when_full = when_full
            assert (await coordinator.named.prefetch(EVERYBODY, "wanted")).state == pb.NamedDataset.STATE_WARMING
