"""Derived shards computed at other nodes: a trainer that can is at one of them perhaps, and no reader of its shards.

So it is with workers of tf.data service: they read, at nodes of their own, what a trainer elsewhere can compute.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Protocol

from absl import logging

from tfquiver import errors
from tfquiver.content.digest import Digest, ShardRef
from tfquiver.service.node.derived.computers import COMPUTE_S
from tfquiver.service.node.memory.ready_shard import ReadyShard
from tfquiver.service.node.memory.verified import VerifiedShard

_MOST_REMEMBERED = 64  # data sets


class Peers(Protocol):
    def others(self) -> Sequence[str]:
        """The live nodes but this one."""

    async def get_of_its_own(self, node_id: str, digest: Digest, ref: ShardRef) -> ReadyShard:
        """As PeerClient."""


class Elsewhere:
    """Lives on one loop."""

    def __init__(self, peers: Peers | None) -> None:
        self._peers = peers
        self._able: dict[bytes, str] = {}  # digest id -> the node that could the last time

    async def compute(self, digest: Digest, ref: ShardRef) -> VerifiedShard:
        """Asks the other nodes, one after the other, for what they have or can have computed themselves.

        Raises UnavailableError: none of them could.
        """
        if self._peers is not None:
            able = self._able.get(digest.digest_id)
            for name in sorted(self._peers.others(), key=lambda name: name != able):
                try:
                    async with asyncio.timeout(COMPUTE_S):
                        ready = await self._peers.get_of_its_own(name, digest, ref)
                    shard = await asyncio.to_thread(_taken, ref, ready)
                except (errors.TfquiverError, TimeoutError) as error:
                    logging.log_every_n_seconds(
                        logging.INFO, "shard %d of %s from node %s: %s", 30, ref.index, digest.name, name, error
                    )
                    continue
                self._remember(digest.digest_id, name)
                return shard
        raise errors.UnavailableError(
            "nor could one of another node: workers of tf.data service can read it where a trainer that called "
            "tfquiver.materialize is there"
        )

    def _remember(self, digest_id: bytes, name: str) -> None:
        self._able.pop(digest_id, None)
        self._able[digest_id] = name
        if len(self._able) > _MOST_REMEMBERED:
            del self._able[next(iter(self._able))]


def _taken(ref: ShardRef, ready: ReadyShard) -> VerifiedShard:
    """Blocks; closes it."""
    try:
        raw = bytearray()
        while len(raw) < ready.length_bytes:
            some = os.pread(ready.fd, ready.length_bytes - len(raw), ready.offset + len(raw))
            if not some:
                break
            raw += some
        return VerifiedShard.check(ref.hash, bytes(raw), f"{ref.file.uri} at {ref.offset}")
    finally:
        ready.close()
