"""A fixed share of an epoch: the position of a reader that has it before it, and nothing else. Pure.

What several readers would otherwise be given as they ask is settled here without their knowing of one another: the
shards of the others count as done. In the format of ops/core/progress_and_checkpoints/checkpoint.h, which reads
it.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import google_crc32c
import numpy as np

from tfquiver import errors

_MAGIC, _VERSION = b"TQIT", 2
_SHUFFLED, _EPOCH_KNOWN = 2, 4
_GOLDEN, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Share:
    """Every `readers`th shard, from number `reader` on. Raises InvalidArgumentError: there is no such share."""

    reader: int = 0
    readers: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.reader < self.readers:
            raise errors.InvalidArgumentError(f"reader {self.reader} of {self.readers}: there is no such share")

    def every(self, reader: int, readers: int) -> Share:
        """The share of one of `readers` who have this one between them."""
        Share(reader, readers)
        return Share(self.reader + self.readers * reader, self.readers * readers)

    def others(self, shards: int) -> bytes:
        """Bitmap of the other shards of a data set: bit i of byte i/8 is shard i."""
        others = np.ones(shards, np.uint8)
        others[self.reader :: self.readers] = 0
        return np.packbits(others, bitorder="little").tobytes()


def beginning(share: Share, digest_id: bytes, shards: int, seed: int, epoch: int, shuffled: bool) -> bytes:
    """The position before the first record of a share, as `Epoch.state` gives those behind one.

    Args:
      seed: of the order, or any number where it need not come again.
      shuffled: whether the records of a shard come in another order than they are stored in.
    """
    flags = _EPOCH_KNOWN | (_SHUFFLED if shuffled else 0)
    done = zlib.compress(share.others(shards), 1)
    text = b"".join((
        _MAGIC, bytes((_VERSION, flags)), digest_id,
        struct.pack("<QQQI", order_seed(seed, epoch), epoch, shards, len(done)), done,
        bytes(4),  # nothing is begun; no script: its credit, its shards, its draws
    ))  # fmt: skip
    return text + struct.pack("<I", google_crc32c.value(text))


def order_seed(seed: int, epoch: int) -> int:
    """As OrderSeed in ops/core/shuffle_pool_and_order/random.h, and as the coordinator makes it."""
    z = (seed + (epoch + 1) * _GOLDEN) & _MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
    return (z ^ (z >> 31)) or 1
