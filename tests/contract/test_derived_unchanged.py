"""A function may leave shards as they were: then the bytes that are wanted are those of which they are computed."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.store_node import StoreNode, build, is_shard, raw_of, write_files
from tfquiver.digests.digest import Digest, ShardRef
from tfquiver.digests.file_entry import FileEntry
from tfquiver.materializing.derived_uris import uri_of
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard


def unchanged(source: Digest, build_id: bytes) -> Digest:
    files = [FileEntry(uri_of(build_id, file.uri), file.size_bytes, "1", "none") for file in source.files]
    return Digest.build("same", files, source.hashes, source.file_index, source.offsets, source.lengths, source.records)


@pytest.mark.parametrize("ordered", [False, True])
@on_loop
async def test_who_computes_a_shard_is_given_the_same_bytes_of_its_input(tmp_path: Path, ordered: bool) -> None:
    """No quota: nothing is kept. Twice derived, each of what was there before."""
    first = build(write_files(tmp_path / "data", 1, 30))
    chain = [first, unchanged(first, b"1" * 32)]
    chain.append(unchanged(chain[1], b"2" * 32))
    inputs = {derived.digest_id: source for source, derived in itertools.pairwise(chain)}

    async def compute(digest: Digest, ref: ShardRef) -> VerifiedShard:
        """As a trainer does, which asks its node for the input."""
        raw = raw_of(await node.source.get(inputs[digest.digest_id], ref.index, ""))
        return VerifiedShard.check(ref.hash, raw, "computed")

    async with StoreNode(tmp_path / "node", chain, quota_bytes=(1 << 30) * ordered, hot_bytes=0) as node:
        node.fetcher._compute = compute
        async with asyncio.timeout(20):
            if ordered:
                await node.source.load(chain[-1], 0)
            assert is_shard(await node.source.get(chain[-1], 0, ""), chain[-1], 0)
