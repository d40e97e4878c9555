"""A sampler for sessions whose order does not depend on what is cached, nor on who reads. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.block_order import BlockOrder
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import Place
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.slots import Slots


class Deterministic:
    """A Sampler. Whole blocks, the first that has anything pending first; O(log blocks) a block, a bit a shard.

    A block that is handed out is held by one reader as a whole, so that it can tell when all of it has come.
    """

    def __init__(
        self,
        order: BlockOrder,
        pending: npt.NDArray[np.bool_],
        lengths: Sequence[int] | npt.NDArray[np.uint64],
        resident: bytearray,
    ) -> None:
        """`pending`: shape [shards]. `lengths`: bytes of each shard. `resident`: a byte a shard, kept by the caller."""
        self._order, self._lengths, self._resident = order, lengths, resident
        self._pending = Slots(pending)
        # All before this block have been taken, but for those of _again.
        self._following = order.next_with(self._pending, 0)
        self._again: list[int] = []  # a heap; some may have nothing left

    @property
    def pending(self) -> int:
        return self._pending.count

    def take(self, n: int, max_bytes: int, store_bytes: float | None = None) -> list[int]:
        """At least one block, whatever its size; but none where one that comes next has to wait for `store_bytes`."""
        taken: list[int] = []
        size_bytes = 0
        while self._pending.count:
            again = bool(self._again) and self._again[0] <= self._following
            block = self._pending_of(self._again[0] if again else self._following)
            if not block and not again:  # as many as there are behind a lost reader's, after a restart
                self._following = self._order.next_with(self._pending, self._following)
                continue
            size_bytes += sum(int(self._lengths[shard]) for shard in block)
            if taken and (len(taken) + len(block) > n or size_bytes > max_bytes):
                break
            if store_bytes is not None:
                missing_bytes = sum(int(self._lengths[shard]) for shard in block if not self._resident[shard])
                if missing_bytes and store_bytes <= 0:
                    break
                store_bytes -= missing_bytes
            if again:
                heapq.heappop(self._again)
            else:
                self._following += 1
            self.remove(block)
            taken += block
        return taken

    def give_back(self, shards: Iterable[int]) -> None:
        for shard in shards:
            if self._pending.add(shard):
                block = self._order.block_of(shard)
                if block < self._following:
                    heapq.heappush(self._again, block)

    def remove(self, shards: Iterable[int]) -> None:
        for shard in shards:
            self._pending.remove(shard)

    def residency_changed(self, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """It does not matter."""

    def place(self, shard: int) -> Place:
        return self._order.place(shard)

    def close(self) -> None:
        """Nothing to do."""

    def _pending_of(self, block: int) -> list[int]:
        first = self._order.first
        return [shard for shard in self._order.shards[first[block] : first[block + 1]] if shard in self._pending]
