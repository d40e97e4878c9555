"""Which shards a session hands out next: resident ones first, each kind in random order.

Substitutability (Quiver, FAST'20, section 4.7): an epoch needs every record once, in any random order, so a session
takes what is cached now and comes back for the rest.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Place:
    """Where a shard stands in the order of its session; all zero where the session has none."""

    unit: int = 0  # stripe unit + 1 of a homogeneous session
    position: int = 0  # deterministic: how many of the data set's records stand before the shard's block
    offset: int = 0  # how many of the block's before the shard
    records: int = 0  # in the block


NOWHERE = Place()


class Sampler(Protocol):
    """The pending shards of one session. A scheme of sampling implements this and nothing else."""

    @property
    def pending(self) -> int:
        """How many shards could be taken."""

    def take(self, n: int, max_bytes: int) -> list[int]:
        """Up to `n` shards, no longer pending, of together at most `max_bytes`; the first is given at any size."""

    def give_back(self, shards: Iterable[int]) -> None:
        """These are pending again. Shards that are pending already stay so."""

    def remove(self, shards: Iterable[int]) -> None:
        """These are pending no longer (read by somebody, or held by a reader that came back)."""

    def residency_changed(self, shards: Iterable[int]) -> None:
        """The shards' entries in the residency table, which the sampler shares, have changed."""

    def place(self, shard: int) -> Place: ...

    def close(self) -> None:
        """It is not used any more."""


class ResidentFirst:
    """Every operation costs O(1) a shard, and 8 bytes a shard are kept.

    `_order` is a permutation of the data set's shards in three zones, the borders of which move by swaps:
    [0, _resident) pending and resident, [_resident, _pending) pending and missing, then those not pending.
    """

    def __init__(
        self,
        pending: npt.NDArray[np.bool_],
        resident: bytearray,
        lengths: Sequence[int] | npt.NDArray[np.uint64],
        rng: random.Random,
    ) -> None:
        """`pending`: shape [shards]. `resident`: a byte a shard, 0 or 1, kept by the caller. `lengths`: bytes."""
        is_resident = np.frombuffer(resident, np.uint8) != 0
        zones = (pending & is_resident, pending & ~is_resident, ~pending)
        order = np.concatenate([np.flatnonzero(zone) for zone in zones]).astype(np.uint32)
        position = np.empty(len(order), np.uint32)
        position[order] = np.arange(len(order), dtype=np.uint32)
        # array.array: reading one element is three times faster than from numpy.
        self._order = array("I", order.tobytes())
        self._position = array("I", position.tobytes())
        self._resident = int(zones[0].sum())
        self._pending = int(pending.sum())
        self._is_resident = resident
        self._lengths = lengths
        self._rng = rng

    @property
    def pending(self) -> int:
        return self._pending

    def take(self, n: int, max_bytes: int) -> list[int]:
        taken: list[int] = []
        size_bytes = 0
        while len(taken) < n and self._pending:
            start, stop = (0, self._resident) if self._resident else (0, self._pending)
            shard = self._order[start + int(self._rng.random() * (stop - start))]
            size_bytes += int(self._lengths[shard])
            if taken and size_bytes > max_bytes:
                break
            self._leave(shard)
            taken.append(shard)
        return taken

    def give_back(self, shards: Iterable[int]) -> None:
        for shard in shards:
            if self._position[shard] < self._pending:
                continue
            self._swap(self._position[shard], self._pending)
            self._pending += 1
            if self._is_resident[shard]:
                self._swap(self._position[shard], self._resident)
                self._resident += 1

    def remove(self, shards: Iterable[int]) -> None:
        for shard in shards:
            if self._position[shard] < self._pending:
                self._leave(shard)

    def residency_changed(self, shards: Iterable[int]) -> None:
        for shard in shards:
            position = self._position[shard]
            if position >= self._pending:
                continue
            if self._is_resident[shard] and position >= self._resident:
                self._swap(position, self._resident)
                self._resident += 1
            elif not self._is_resident[shard] and position < self._resident:
                self._resident -= 1
                self._swap(position, self._resident)

    def place(self, shard: int) -> Place:
        return NOWHERE

    def close(self) -> None:
        pass

    def _leave(self, shard: int) -> None:
        """From its zone to the border of the next, until it is not pending."""
        position = self._position[shard]
        if position < self._resident:
            self._resident -= 1
            self._swap(position, self._resident)
            position = self._resident
        self._pending -= 1
        self._swap(position, self._pending)

    def _swap(self, a: int, b: int) -> None:
        order, position = self._order, self._position
        first, second = order[a], order[b]
        order[a], order[b] = second, first
        position[first], position[second] = b, a
