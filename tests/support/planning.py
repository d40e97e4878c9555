"""A coordinator of this process that plans when it is told to; nodes and jobs that say what a test has them say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.digests import numbered_digest
from tfquiver.clock import Clock
from tfquiver.digests.digest import Digest
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.plan_rounds_and_moves.replanning import Replanning

FIRST, SECOND = numbered_digest(300, "first"), numbered_digest(500, "second")
FIRST_BYTES, SECOND_BYTES = (int(most_disk_bytes(one.lengths).sum()) for one in (FIRST, SECOND))
UNIFORM, COOPERATIVE = types_pb2.CACHE_MODE_UNIFORM, types_pb2.CACHE_MODE_COOPERATIVE


@asynccontextmanager
async def coordinating(
    directory: Path, policy: str = "benefit", clock: Clock | None = None, **nodes: int
) -> AsyncIterator[Coordinator]:
    """It plans when it is told to. `nodes`: their quotas in bytes."""
    coordinator = Coordinator(directory / "work", CoordinatorOptions(policy=policy), clock)
    try:
        for node_id, quota_bytes in nodes.items():
            beat(coordinator, node_id, quota_bytes)
        yield coordinator
    finally:
        await coordinator.stop()


def beat(
    coordinator: Coordinator,
    node_id: str,
    quota_bytes: int,
    *reports: pb.ReaderReport,
    disk_room_bytes: int | None = None,
) -> None:
    node = types_pb2.NodeInfo(node_id=node_id, quota_bytes=quota_bytes, disk_room_bytes=disk_room_bytes)
    inventory = pb.Inventory(full=True, version=1)
    coordinator.heartbeats.take(pb.HeartbeatRequest(node=node, incarnation="1", inventory=inventory, readers=reports))


async def reads(coordinator: Coordinator, job: str, digest: Digest, key: str = "") -> str:
    """The session's id. The data set is registered if it is not."""
    if digest.digest_id not in coordinator.registry:
        await coordinator.catalogue.register(digest.name, b"", None, parts_of(digest))
    request = pb.OpenReaderRequest(
        reader_id=f"{job}{key} {digest.name}", node_id="a", incarnation="1", digest_id=digest.digest_id, job=job,
        session_key=key or f"{job} {digest.name}",
    )  # fmt: skip
    session, _ = await coordinator.reading.open_reader(request)
    return session.session_id


async def parts_of(digest: Digest) -> AsyncIterator[bytes]:
    yield digest.to_bytes()


async def plans(coordinator: Coordinator) -> Replanning:
    assert coordinator.replanning
    await coordinator.replanning.measure()
    await coordinator.replanning.look()
    return coordinator.replanning


def cached(coordinator: Coordinator, digest: Digest) -> types_pb2.CacheSetting:
    return coordinator.catalogue.cache(digest.digest_id)
