"""What a session calls shards, and which of the data set's these are: the same, or draws (pure)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats.drawn_shards import DrawnShards


def shard_name(digest: Digest, shard: int) -> str:
    """For messages: where a shard comes from."""
    ref = digest.shard(shard)
    return f"shard {shard} ({ref.file.uri} at {ref.offset}, {ref.length_bytes} bytes)"


class NumberedShards:
    """`count` of them; `lengths`: raw bytes of each, shape [count]."""

    def __init__(self, digest: Digest, drawn: DrawnShards | None = None) -> None:
        self.digest = digest
        self._shards = drawn.shards if drawn else None
        self.lengths: npt.NDArray[np.uint64] = digest.lengths[drawn.shards] if drawn else digest.lengths
        self.count = len(self.lengths)
        self.picks = drawn.picks if drawn else None  # set: a draw is of some records of its shard

    def shard(self, number: int) -> int:
        """Its place in the digest."""
        return number if self._shards is None else int(self._shards[number])

    def hash(self, number: int) -> bytes:
        return bytes(self.digest.hashes[self.shard(number)])

    def records(self, number: int) -> int:
        return int(self.digest.records[self.shard(number)])

    def pick_bytes(self, number: int) -> int:
        """That say which records a draw is of."""
        return self.picks.pick_bytes(self.records(number)) if self.picks else 0

    def name(self, number: int) -> str:
        return shard_name(self.digest, self.shard(number))
