"""Shards that are open, checked, and bounded: the ones that were read longest ago are closed first.

Needs trio. Lives on one trio loop. A shard that several reads want is asked for once.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict

import trio
from absl import logging

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.mounting.checked_shard import BLOCK_BYTES, BlockSums, CheckedShard, block_sums
from tfquiver.mounting.node_line import NodeLine

_ATTEMPTS = 3
_SUMS_BYTES = 64 << 20  # of shards that are closed: what is asked for again need not be read whole again
_SUM_BYTES = 4
_IDLE_S = 60.0
_SCRATCH_BYTES = 2 << 20
# From when a shard comes until it is read, all that its readers are ahead is read, and comes once more: with the shards
# that they are in, that is to be less than what is open, or it is closed before it is read, and fetched again.
_AHEAD_SHARE = 3


class OpenShards:
    """Args:
    most_open: descriptors.
    most_memory_bytes: of shards that the node gave as memory (they are stored compressed, or nowhere).
    """

    def __init__(self, digest: Digest, line: NodeLine, most_open: int, most_memory_bytes: int) -> None:
        self._digest, self._line = digest, line
        self._most_open, self._most_memory_bytes = most_open, most_memory_bytes
        self._open: OrderedDict[int, CheckedShard] = OrderedDict()
        self._coming: dict[int, trio.Event] = {}
        self._used: set[int] = set()  # since `run` looked last
        self._sums: OrderedDict[int, BlockSums[int]] = OrderedDict()
        self._memory_bytes = self._sums_bytes = 0
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._threads = trio.CapacityLimiter(4)

    def __contains__(self, shard: int) -> bool:
        return shard in self._open or shard in self._coming

    @property
    def ahead_bytes(self) -> int:
        """So much may come before somebody reads it. Descriptors alone take no memory."""
        return self._most_memory_bytes // _AHEAD_SHARE if self._memory_bytes else sys.maxsize

    def ready(self, shard: int) -> CheckedShard | None:
        """Where it need not be waited for. Not kept open over an `await`."""
        found = self._open.get(shard)
        if found is not None:
            self._open.move_to_end(shard)
            self._used.add(shard)
        return found

    async def get(self, shard: int, again: bool = False) -> CheckedShard:
        """Raises as NodeLine.get; DataLossError: what comes is damaged again and again. Who waits with others for the
        same shard gives up when it would have alone, not after each of them."""
        give_up_at = self._line.give_up_at()
        while not again:
            if found := self.ready(shard):
                return found
            if (coming := self._coming.get(shard)) is None:
                break
            await coming.wait()  # and look whether it has come
        coming = self._coming[shard] = trio.Event()
        try:
            made = await self._make(shard, again, give_up_at)
            self._keep(shard, made)
            return made
        finally:
            if self._coming.get(shard) is coming:
                del self._coming[shard]
            coming.set()

    def read_now(self, shard: int, offset: int, length_bytes: int, room: memoryview | None = None) -> memoryview | None:
        """Without waiting for anything; None: it must be waited for, by `read`. In `room`, or gone with the next call
        of this."""
        opened = self.ready(shard)
        try:
            return opened.read(offset, length_bytes, False, room or self._scratch) if opened is not None else None
        except (errors.DataLossError, OSError):  # `read` finds it, too
            return None

    async def read(self, shard: int, offset: int, length_bytes: int) -> memoryview:
        """Raises as `get`."""
        again = False
        for _ in range(_ATTEMPTS):
            opened = await self.get(shard, again)
            try:
                if (data := opened.read(offset, length_bytes, wait=False)) is not None:
                    return data
                if (data := await self._read_in_thread(opened, offset, length_bytes)) is not None:
                    return data
            except (errors.DataLossError, OSError) as error:
                logging.warning("%s: %s; getting it again", self._name(shard), error)
            again = True
        raise errors.DataLossError(f"{self._name(shard)}: damaged again and again")

    async def run(self) -> None:
        """Closes what nobody reads, until it is cancelled: what the node has evicted takes room for as long as it is
        open here."""
        while True:
            self._used.clear()
            await trio.sleep(_IDLE_S)
            for shard in [shard for shard in self._open if shard not in self._used]:
                self._close(self._open.pop(shard))

    def close(self) -> None:
        for opened in self._open.values():
            opened.close()
        self._open.clear()

    async def _read_in_thread(self, opened: CheckedShard, offset: int, length_bytes: int) -> memoryview | None:
        own = CheckedShard(  # it may be closed, and its number be another file's, before the thread looks
            os.dup(opened.fd), opened.offset, opened.length_bytes, opened.sums, opened.in_memory, opened.phase
        )
        try:
            return await trio.to_thread.run_sync(own.read, offset, length_bytes, limiter=self._threads)
        finally:
            own.close()

    async def _make(self, shard: int, again: bool, give_up_at: float) -> CheckedShard:
        trouble: Exception | None = None
        phase = self._digest.offsets.item(shard) % BLOCK_BYTES
        for _ in range(_ATTEMPTS):
            got, fd = await self._line.get(shard, again, give_up_at)
            try:
                sums = self._sums.get(shard)
                if sums is None or again:
                    sums = await trio.to_thread.run_sync(
                        block_sums, fd, got.offset, got.length_bytes, got.crc32c, phase, limiter=self._threads
                    )
            except (errors.DataLossError, OSError) as error:
                os.close(fd)
                logging.warning("%s: %s; getting it again", self._name(shard), error)
                trouble, again = error, True
            except BaseException:
                os.close(fd)
                raise
            else:
                self._know(shard, sums)
                return CheckedShard(fd, got.offset, got.length_bytes, sums, got.kind == frames.KIND_MEMORY, phase)
        raise errors.DataLossError(f"{self._name(shard)}: damaged again and again: {trouble}") from trouble

    def _know(self, shard: int, sums: BlockSums[int]) -> None:
        if shard not in self._sums:
            self._sums_bytes += _SUM_BYTES * len(sums)
        self._sums[shard] = sums
        self._sums.move_to_end(shard)
        while self._sums_bytes > _SUMS_BYTES:
            _, gone = self._sums.popitem(last=False)
            self._sums_bytes -= _SUM_BYTES * len(gone)

    def _keep(self, shard: int, made: CheckedShard) -> None:
        if (before := self._open.pop(shard, None)) is not None:
            self._close(before)
        self._open[shard] = made
        self._used.add(shard)
        self._memory_bytes += made.length_bytes if made.in_memory else 0
        while len(self._open) > 1 and (
            len(self._open) > self._most_open or self._memory_bytes > self._most_memory_bytes
        ):
            self._close(self._open.popitem(last=False)[1])

    def _close(self, opened: CheckedShard) -> None:
        self._memory_bytes -= opened.length_bytes if opened.in_memory else 0
        opened.close()

    def _name(self, shard: int) -> str:
        ref = self._digest.shard(shard)
        return f"shard {shard} ({ref.file.uri} at {ref.offset})"
