"""A shard of the input through the function: what it becomes, wherever and however often it is computed.

What it becomes may be many times as large, so it is made part by part: nobody need hold all of it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.materializing.elements_as_records.shard_cut import MadeShard, cut, payloads
from tfquiver.materializing.function_fingerprints.function import Function
from tfquiver.materializing.raw_shards import RawShards


class Making:
    """Thread-safe. `build_id`: of which the seeds of a random function are made."""

    def __init__(self, digest: Digest, raw: RawShards, function: Function, build_id: bytes) -> None:
        self.digest = digest
        self._raw, self._function, self._build_id = raw, function, build_id

    def make(
        self, row: int, wait: Callable[[float], bool], read: Callable[[float], None] | None = None
    ) -> Iterator[MadeShard]:
        """Its parts, in order. `wait`: as in RawShards.get. `read`: is told the seconds of CPU that reading has taken.

        Raises InvalidArgumentError naming the shard that the function cannot do, also after some of its parts.
        """
        ref = self.digest.shard(row)
        where = f"shard {row} ({ref.file.uri} at {ref.offset})"
        began_s = time.thread_time()
        records = payloads(self._raw.get(row, wait), ref.records, where)
        if read is not None:
            read(time.thread_time() - began_s)
        try:
            yield from cut(self._function.apply(records, self._seed(row)))
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(f"{where}: {error}") from error

    def close_mine(self) -> None:
        self._raw.close_mine()

    def _seed(self, row: int) -> int:
        found = hashlib.sha256(self._build_id + row.to_bytes(8, "little")).digest()
        return int.from_bytes(found[:8], "little", signed=True)
