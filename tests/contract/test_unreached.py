"""What only nodes hold that do not answer is told apart: nobody can serve it, and it was called cached."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_here import parts, read_first, started
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.grpc_calls.about_datasets.dataset_calls import DatasetCalls
from tfquiver.service.coordinator.resident_shards.table import Table
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import of_rows

SHARDS, SHARD_BYTES = 10, 100


@on_loop
async def test_of_what_is_followed_and_of_what_is_looked_at(tmp_path: Path) -> None:
    read, other = numbered_digest(SHARDS, "read"), numbered_digest(SHARDS, "other")
    async with started(tmp_path) as coordinator:
        for digest in (read, other):
            await coordinator.catalogue.register(digest.name, b"", None, parts(digest))
        await read_first(coordinator, "reader", read.digest_id)
        for node, digest, shards in (("a", read, slice(0, 7)), ("b", read, slice(5, 10)), ("a", other, slice(0, 4))):
            added = coordinator.residency.added(node, of_rows(digest.hashes[shards]))
            coordinator.caching.changed(added)

        async def told(digest_id: bytes, *unreached: str) -> types_pb2.Dataset:
            request = pb.ListDatasetsRequest(looked_at=[digest_id], unreached=unreached)
            [one] = (await DatasetCalls(coordinator).ListDatasets(request, None)).datasets
            return one

        for unreached, there, gone in (((), 10, 0), (("a",), 5, 5), (("b", "nobody"), 7, 3), (("a", "b"), 0, 10)):
            one = await told(read.digest_id, *unreached)
            assert (one.resident_shards, one.resident_bytes) == (there, there * SHARD_BYTES)
            assert one.unreached_bytes == gone * SHARD_BYTES
        for unreached, there, gone in (((), 4, 0), (("b",), 4, 0), (("a", "b"), 0, 4)):
            one = await told(other.digest_id, *unreached)
            assert (one.resident_bytes, one.unreached_bytes) == (there * SHARD_BYTES, gone * SHARD_BYTES)


@on_loop
async def test_no_more_are_taken_than_can_be_looked_for(tmp_path: Path) -> None:
    async with started(tmp_path) as coordinator:
        request = pb.ListDatasetsRequest(unreached=map(str, range(1025)))
        calls: Any = DatasetCalls(coordinator)
        with pytest.raises(errors.InvalidArgumentError, match="unreached"):
            await calls.ListDatasets.__wrapped__(calls, request, None)


@on_loop
async def test_what_comes_and_goes_while_that_is_looked_for_makes_it_no_less_than_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The amounts are unsigned: one below zero made the whole listing fail."""
    digest, loop = numbered_digest(SHARDS, "read"), asyncio.get_running_loop()
    prefixes = of_rows(digest.hashes)
    async with started(tmp_path) as coordinator:
        await coordinator.catalogue.register(digest.name, b"", None, parts(digest))
        await read_first(coordinator, "reader", digest.digest_id)
        coordinator.caching.changed(coordinator.residency.added("a", prefixes[:2]))

        async def comes() -> None:
            coordinator.caching.changed(coordinator.residency.added("a", prefixes))

        async def goes() -> None:
            coordinator.caching.changed(coordinator.residency.removed("a", prefixes[2:]))

        look = Table.only_at

        def meanwhile(table: Table, numbers: Sequence[int]) -> npt.NDArray[np.uint32]:
            asyncio.run_coroutine_threadsafe(comes(), loop).result(10)
            found = look(table, numbers)
            asyncio.run_coroutine_threadsafe(goes(), loop).result(10)
            return found

        monkeypatch.setattr(Table, "only_at", meanwhile)
        assert await coordinator.named.resident_bytes(digest.digest_id, ["a"]) == 0
        request = pb.ListDatasetsRequest(looked_at=[digest.digest_id], unreached=["a"])
        [one] = (await DatasetCalls(coordinator).ListDatasets(request, None)).datasets
        assert (one.resident_bytes, one.resident_shards) == (0, 0)
        assert one.unreached_bytes == SHARDS * SHARD_BYTES
