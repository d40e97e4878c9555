"""A shard's descriptor, and the checksums of its blocks: whatever is read of it later is known to be what was checked.

A shard's CRC covers all of it. The blocks' own are computed while the whole is checked, so that a read of 64 KiB need
not read 2 MiB, and an entry that rots, or is overwritten, after it was opened is still found out (I-5).
"""

from __future__ import annotations

import array
import os

import google_crc32c
import numpy as np

from tfquiver import errors

BLOCK_BYTES = 32 << 10
_PART_BYTES = 32 * BLOCK_BYTES

BlockSums = array.array  # of u32, one for each block


class CheckedShard:
    """Owns `fd`. Reads block on the disk; not thread-safe with `close`.

    Args:
      offset: of its bytes, in what `fd` is.
      phase: how far behind a block's beginning the shard begins, as for `block_sums`.
    """

    def __init__(
        self, fd: int, offset: int, length_bytes: int, sums: BlockSums[int], in_memory: bool, phase: int = 0
    ) -> None:
        self.fd, self.offset, self.length_bytes, self.sums, self.in_memory = fd, offset, length_bytes, sums, in_memory
        self.phase = phase

    def read(
        self, offset: int, length_bytes: int, wait: bool = True, scratch: memoryview | None = None
    ) -> memoryview | None:
        """Bytes of the shard; None: without `wait`, when the disk would have to be waited for.

        `scratch`: where to read to, if it is large enough: what comes is gone with the next read into it.

        Raises DataLossError: they are not what they were. OSError: the disk's.
        """
        phase, sums = self.phase, self.sums
        block = (offset + phase) // BLOCK_BYTES
        start = max(block * BLOCK_BYTES - phase, 0)
        end = min(-(-(offset + length_bytes + phase) // BLOCK_BYTES) * BLOCK_BYTES - phase, self.length_bytes)
        buffer = self._raw(start, end - start, wait, scratch)
        if buffer is None:
            return None
        # NumPy's views are the only ones that the checksum takes as they are: to copy each block for it costs as much
        # again as to read and check it.
        blocks, at, stop = np.frombuffer(buffer, np.uint8), 0, (block + 1) * BLOCK_BYTES - phase - start
        while at < end - start:
            if google_crc32c.value(blocks[at:stop]) != sums[block]:
                raise errors.DataLossError(f"its bytes at {start + at} have changed")
            at, stop, block = stop, stop + BLOCK_BYTES, block + 1
        return memoryview(buffer)[offset - start : offset - start + length_bytes]

    def close(self) -> None:
        os.close(self.fd)

    def _raw(
        self, start: int, length_bytes: int, wait: bool, scratch: memoryview | None
    ) -> bytes | bytearray | memoryview | None:
        if wait:
            return _exactly(self.fd, length_bytes, self.offset + start, start)
        has_room = scratch is not None and length_bytes <= len(scratch)
        buffer = scratch[:length_bytes] if scratch is not None and has_room else bytearray(length_bytes)
        try:
            taken = os.preadv(self.fd, [buffer], self.offset + start, 0 if self.in_memory else os.RWF_NOWAIT)
        except OSError:  # EAGAIN, or a file system that cannot say
            return None
        return buffer if taken == length_bytes else None


def block_sums(fd: int, offset: int, length_bytes: int, crc32c: int, phase: int = 0) -> BlockSums[int]:
    """Reads all of a shard. Blocks.

    `phase`: of its first block so much is before the shard. Who gives where in its file it begins has blocks of the
    file: what the kernel asks for is such, too, and a read then checks (and reads) no more than it gives.

    Raises DataLossError: its plain CRC-32C is another one, or it is shorter. OSError: the disk's.
    """
    sums, total, at, before = array.array("I"), 0, 0, phase % BLOCK_BYTES
    while at < length_bytes:
        part = _exactly(fd, min(_PART_BYTES - before, length_bytes - at), offset + at, at)
        total, blocks = google_crc32c.extend(total, part), np.frombuffer(part, np.uint8)
        sums.extend(
            google_crc32c.value(blocks[max(i, 0) : i + BLOCK_BYTES]) for i in range(-before, len(part), BLOCK_BYTES)
        )
        at, before = at + len(part), 0
    if total != crc32c:
        raise errors.DataLossError(f"its CRC is {total:#x}, not {crc32c:#x}")
    return sums


def _exactly(fd: int, length_bytes: int, at: int, of_shard: int) -> bytes:
    data = os.pread(fd, length_bytes, at)
    while len(data) < length_bytes:
        more = os.pread(fd, length_bytes - len(data), at + len(data))
        if not more:
            raise errors.DataLossError(f"it ends at {of_shard + len(data)}")
        data += more
    return data
