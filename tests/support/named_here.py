"""Data sets with names, of a coordinator in this process."""

from __future__ import annotations

import asyncio

from tests.support.coordinator_here import DIGEST
from tests.support.digests import numbered_digest
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb
from tfquiver.roles_and_tokens.identity import EVERYBODY
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes

OTHER = numbered_digest(100)


def of(name: str, digest: Digest = DIGEST, pin: bool = False) -> pb.DatasetSpec:
    return pb.DatasetSpec(name=name, digest_id=digest.digest_id, pin=pin)


async def until_done(coordinator: Coordinator, name: str) -> pb.NamedDataset:
    """After the newest wish has been carried out as far as it goes without nodes."""
    async with asyncio.timeout(20):
        while not coordinator.caching.met:
            await asyncio.sleep(0.01)
    await coordinator.named.look()
    return coordinator.named.find(EVERYBODY, name)


async def scanning(coordinator: Coordinator, name: str = "train", source: str = "/x") -> coordinator_pb2.DatasetTask:
    """It is created; the task of its scan, which some node has now."""
    await coordinator.named.create(EVERYBODY, pb.DatasetSpec(name=name, sources=[source]))
    await until_done(coordinator, name)
    [task] = coordinator.named.tasks
    return task


async def scanned(coordinator: Coordinator, name: str, digest: Digest) -> pb.NamedDataset:
    await until_done(coordinator, name)
    [task] = coordinator.named.tasks
    over = pb.ReportTaskRequest(node_id="n", task_id=task.task_id, over=True, digest_id=digest.digest_id)
    assert await coordinator.named.report(over)
    return await until_done(coordinator, name)


async def unclaimed(coordinator: Coordinator, prefixes: Prefixes) -> bytes | None:
    """A byte for each: 1, no data set names it. None: a scan is under way."""
    claimed = await coordinator.claims.claimed(prefixes)
    return claimed and claimed.unclaimed
