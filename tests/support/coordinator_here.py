"""A coordinator on this loop, without a port: it knows one data set, and one node with room for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.digests import numbered_digest
from tfquiver.clock import Clock
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.sessions.lease import LeaseState

DIGEST = numbered_digest(200)
COOPERATIVE = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_COOPERATIVE, chunks=10)


@asynccontextmanager
async def started(
    tmp_path: Path, node_timeout_s: float = 10.0, clock: Clock | None = None
) -> AsyncIterator[Coordinator]:
    """One that knows DIGEST and a node with room for it."""
    coordinator = Coordinator(tmp_path / "work", CoordinatorOptions(node_timeout_s=node_timeout_s), clock)
    await coordinator.start()
    try:
        await coordinator.catalogue.register("", b"", None, parts())
        beat(coordinator)
        yield coordinator
    finally:
        await coordinator.stop()


async def parts(digest: Digest = DIGEST) -> AsyncIterator[bytes]:
    yield digest.to_bytes()


def beat(
    coordinator: Coordinator,
    node: str = "n",
    scans: int = 0,
    quota_bytes: int = 1 << 40,
    mounts: Sequence[pb.MountReport] = (),
    holds: Digest | None = None,
) -> None:
    inventory = pb.Inventory(full=True, version=1)
    if holds is not None:
        inventory.added.extend(row.tobytes() for row in holds.hashes)
    request = pb.HeartbeatRequest(incarnation="1", inventory=inventory, scans=scans, mounts=mounts)
    request.node.node_id, request.node.quota_bytes = node, quota_bytes
    coordinator.heartbeats.take(request)


async def read_first(
    coordinator: Coordinator, reader: str, digest_id: bytes = DIGEST.digest_id, job: str = "", **wish: bool
) -> LeaseState:
    request = pb.OpenReaderRequest(reader_id=reader, node_id="n", incarnation="1", digest_id=digest_id, **wish)
    request.job = job
    session, _ = await coordinator.reading.open_reader(request)
    lease = pb.LeaseRequest(session_id=session.session_id, reader_id=reader, sequence=1, max_shards=1, max_bytes=1)
    lease.wait_ms = 10_000
    return (await coordinator.reading.lease(lease))[0].state
