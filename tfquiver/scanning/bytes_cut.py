"""Files of any kind cut by content: FastCDC (Xia et al., USENIX ATC 2016; the 2020 variant) with normalised chunking.

Where a shard ends depends on nothing but its own bytes, so copies that differ in a part fall into step again behind it,
and a shard is cut the same whether the file is read from its start or from that shard. A file that is smaller than the
least size is one shard.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import google_crc32c
from pyfastcdc import FastCDC

from tfquiver import errors
from tfquiver.scanning.cut_shard import CutShard
from tfquiver.scanning.cutting import CutPolicy


def cut_bytes(
    chunks: Iterable[bytes], policy: CutPolicy, *, name: str, stream_bytes: int, start: int = 0, keep_data: bool = True
) -> Iterator[CutShard]:
    """The shards of a stream that begins at offset `start`, where a shard begins. Holds about two of the largest.

    Raises DataLossError: the stream does not end at `stream_bytes`; names the file.
    """
    cutter = FastCDC(policy.target_bytes, min_size=policy.min_bytes, max_size=policy.max_bytes)
    left, offset = bytearray(), start
    for chunk in chunks:
        left += chunk
        # The first shard of what is left is what it will be in the end only where it cannot grow any more.
        while len(left) >= policy.max_bytes:
            shard = _shard(left, next(cutter.cut_buf(left)).length, offset, keep_data)
            yield shard
            offset += shard.length_bytes
    while left:
        shard = _shard(left, next(cutter.cut_buf(left)).length, offset, keep_data)
        yield shard
        offset += shard.length_bytes
    if offset != stream_bytes:
        raise errors.DataLossError(f"{name}: {offset} bytes came where {stream_bytes} were listed")


def _shard(left: bytearray, length_bytes: int, offset: int, keep_data: bool) -> CutShard:
    """Taken off the front of `left`."""
    raw = bytes(memoryview(left)[:length_bytes])
    del left[:length_bytes]
    hash, crc32c = hashlib.sha256(raw).digest(), google_crc32c.value(raw)
    return CutShard(hash, offset, length_bytes, 0, crc32c, raw if keep_data else b"")
