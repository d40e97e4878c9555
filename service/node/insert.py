"""Shards on their way into a store: this node's own, or their owner's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import google_crc32c
import numpy as np
from absl import logging

from tfquiver import errors, rendezvous
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.store import codec, entry
from tfquiver.service.node.store.disk import DiskStore
from tfquiver.service.node.store.rules import Why
from tfquiver.service.node.store.verified import VerifiedShard


class Placer:
    """Puts shards that come by (a scan, a compressed file) where they belong. Thread-safe; blocks.

    Args:
      members: every live node.
      put: sends a shard to a node; raises TfquiverError when that node does not take it.
    """

    def __init__(
        self,
        node_id: str,
        disk: DiskStore,
        members: Callable[[], Sequence[types_pb2.NodeInfo]] = tuple,
        put: Callable[[str, VerifiedShard], None] | None = None,
    ) -> None:
        self._node_id, self._disk, self._members, self._put = node_id, disk, members, put

    def place(self, shard: VerifiedShard) -> bool:
        """Whether its owner keeps it now. If it does not, the shard is fetched again when it is wanted."""
        try:
            owner = self.owner(shard.hash)
            if owner == self._node_id or self._put is None:
                self._disk.insert(shard, Why.PASSES)
            elif self._disk.wanted(shard.hash, Why.PASSES):
                self._put(owner, shard)
        except errors.ResourceExhaustedError:
            return False
        except errors.TfquiverError as error:
            logging.log_every_n_seconds(logging.WARNING, "a shard did not get to its owner: %s", 10, error)
            return False
        return True

    def owner(self, hash: bytes) -> str:
        """The node that should keep a shard; this one while no other is known."""
        owners = sorted(node.node_id for node in self._members() if node.quota_bytes > 0)
        if len(owners) <= 1:
            return owners[0] if owners else self._node_id
        row = np.frombuffer(hash, np.uint8).reshape(1, 32)
        return owners[int(rendezvous.owners(row, owners)[0])]


def insert_received(disk: DiskStore, header: entry.Header, stored: bytes | bytearray, sender: str) -> None:
    """Inserts what another node sent; it is not trusted. Blocks.

    Raises:
      DataLossError: the bytes are not what `header` says, or do not have its hash.
      ResourceExhaustedError, NeverFitsError: no room.
    """
    where = f"shard {header.hash.hex()} from {sender}"
    body = bytes(stored)
    try:
        if google_crc32c.value(body) != header.crc32c_stored:
            raise errors.DataLossError(f"{where}: damaged on the way")
        raw = body if header.codec == entry.RAW else codec.decompress(body, header.raw_length, where)
        shard = VerifiedShard.check(header.hash, raw, where)
        if shard.crc32c != header.crc32c_raw:
            raise errors.DataLossError(f"{where}: the bytes have CRC {shard.crc32c:#x}, not {header.crc32c_raw:#x}")
    except errors.DataLossError:
        disk.refused_inserts += 1
        raise
    disk.insert(shard, Why.PASSES)
