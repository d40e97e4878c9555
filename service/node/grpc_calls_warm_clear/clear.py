"""Gives up everything that a node keeps, because somebody asks for it, while it goes on serving."""

from __future__ import annotations

import asyncio

from absl import logging

from tfquiver.proto.tfquiver.v1 import node_pb2
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.sealed_memory_of_checked_shards.hot import HotSet
from tfquiver.service.node.shards_from_disk_other_nodes_or_store.shard_source import ShardSource
from tfquiver.sizes_durations_amounts.amounts import many


async def clear(disk: DiskCache, source: ShardSource, hot: HotSet) -> node_pb2.ClearReply:
    """What stood when it was called; what is fetched meanwhile stays. Readers keep their descriptors."""
    gone = await source.let_go(disk.hashes())
    await asyncio.to_thread(hot.keep_only, lambda hash: False)
    logging.info("cleared on demand: %s; the disk keeps %d", many(gone.entries, "entry", "entries"), gone.stay)
    return node_pb2.ClearReply(entries=gone.entries, bytes=gone.size_bytes, left=gone.stay)
