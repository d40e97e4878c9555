"""Samplers of draws: stage after stage, and in each what is resident first; or one draw after another. Pure.

Numbers are those of draws (`messages_and_binary_formats.drawn_shards`), of which several may be of one shard.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tfquiver.messages_and_binary_formats.drawn_shards import DrawnShards
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import NOWHERE, Place, ResidentFirst
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.slots import MOST_DRAWN, Slots
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct

Flags = npt.NDArray[np.bool_]
Lengths = npt.NDArray[np.uint64]

_MOST_CHANGED = 16 * MOST_DRAWN
_MOST_PIECES = 64


class Staged:
    """A Sampler. A bit for each draw, and for each of the stage that is read now a byte and a bit more."""

    def __init__(
        self, drawn: DrawnShards, pending: Flags, resident: bytearray, lengths: Lengths, rng: random.Random
    ) -> None:
        """`pending`: shape [draws]. `resident`: a byte a shard, kept by the caller. `lengths`: bytes of each shard."""
        self._drawn, self._resident, self._lengths, self._rng = drawn, resident, lengths, rng
        self._pending = Slots(pending)
        self._starts = np.concatenate(([0], np.asarray(drawn.stage_ends[:-1], np.int64)))
        # Shards whose residency has changed since it was looked at; too many: all of the stage are looked at.
        self._changed: list[Sequence[int] | npt.NDArray[np.integer]] = []
        self._changed_shards = 0
        self._begin(self._stage_of(int(np.argmax(pending)) if len(pending) else 0))

    @property
    def pending(self) -> int:
        return self._pending.count

    def take(self, n: int, max_bytes: int, store_bytes: float | None = None) -> list[int]:
        self._look_at_changes()
        taken: list[int] = []
        size_bytes = 0
        while len(taken) < n and self._pending.count:
            if not self._now.pending:
                self._begin(self._stage + 1)
                continue
            if taken and size_bytes >= max_bytes:
                break
            some = self._now.take(n - len(taken), max(1, max_bytes - size_bytes), store_bytes)
            if taken and some and size_bytes + self._bytes_of(some) > max_bytes:  # its first was given at any size
                self._now.give_back(some)
                break
            for draw in some:
                self._pending.remove(draw + self._start)
            taken += [draw + self._start for draw in some]
            size_bytes += self._bytes_of(some)
            if store_bytes is not None:
                missing = [draw for draw in some if not self._is_resident[draw]]
                store_bytes -= self._bytes_of(missing)
            if self._now.pending:
                break
        return taken

    def give_back(self, shards: Iterable[int]) -> None:
        """Of a stage that is over: it is read again until it is over again."""
        back = [draw for draw in shards if self._pending.add(draw)]
        if back and (first := self._stage_of(min(back))) < self._stage:
            self._begin(first)
        else:
            self._now.give_back(self._of_now(back))

    def remove(self, shards: Iterable[int]) -> None:
        gone = [draw for draw in shards if self._pending.remove(draw)]
        self._now.remove(self._of_now(gone))

    def residency_changed(self, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """O(1): a thousand sessions are told at a time, and of which draws a shard is each of them has to look up."""
        self._changed.append(shards)
        self._changed_shards += len(shards)
        if self._changed_shards > _MOST_CHANGED:
            self._changed.clear()
        elif len(self._changed) >= _MOST_PIECES:
            self._changed = [self._all_changed()]

    def place(self, shard: int) -> Place:
        return NOWHERE

    def close(self) -> None:
        """Nothing to do."""

    def _begin(self, stage: int) -> None:
        self._stage = stage
        self._start, self._end = int(self._starts[stage]), self._drawn.stage_ends[stage]
        self._shards = self._drawn.shards[self._start : self._end]  # sorted
        self._is_resident = bytearray(np.frombuffer(self._resident, np.uint8)[self._shards])
        self._changed, self._changed_shards = [], 0
        pending = self._pending.slice_mask(self._start, self._end)
        self._now = ResidentFirst(pending, self._is_resident, _LengthsOf(self._shards, self._lengths), self._rng)

    def _look_at_changes(self) -> None:
        if self._changed_shards > _MOST_CHANGED:
            self._begin(self._stage)
        if not self._changed:
            return
        changed = distinct(self._all_changed())
        self._changed, self._changed_shards = [], 0
        firsts, ends = (np.searchsorted(self._shards, changed, side) for side in ("left", "right"))
        counts = ends - firsts
        draws = np.repeat(firsts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        if not len(draws):
            return
        there = np.frombuffer(self._resident, np.uint8)[self._shards[draws]]
        np.frombuffer(self._is_resident, np.uint8)[draws] = there
        self._now.residency_changed(draws)

    def _all_changed(self) -> npt.NDArray[np.uint32]:
        return np.concatenate([np.asarray(shards, np.uint32) for shards in self._changed])

    def _stage_of(self, draw: int) -> int:
        return int(np.searchsorted(self._starts, draw, "right")) - 1

    def _of_now(self, draws: Iterable[int]) -> list[int]:
        return [draw - self._start for draw in draws if self._start <= draw < self._end]

    def _bytes_of(self, draws: Sequence[int]) -> int:
        return sum(int(self._lengths[self._shards[draw]]) for draw in draws)


class _LengthsOf:
    """Of draws, looked up when they are asked for: eight bytes for each of millions would be kept for a few."""

    def __init__(self, shards: npt.NDArray[np.uint32], lengths: Lengths) -> None:
        self._shards, self._lengths = shards, lengths

    def __getitem__(self, draw: int, /) -> int:
        return int(self._lengths[self._shards[draw]])


class InTurn:
    """A Sampler. The first draw that is pending, whatever is resident. A bit for each draw."""

    def __init__(self, drawn: DrawnShards, pending: Flags, resident: bytearray, lengths: Lengths) -> None:
        """As Staged."""
        self._shards, self._resident, self._lengths = drawn.shards, resident, lengths
        self._pending = Slots(pending)
        self._first = 0  # nothing before it is pending

    @property
    def pending(self) -> int:
        return self._pending.count

    def take(self, n: int, max_bytes: int, store_bytes: float | None = None) -> list[int]:
        taken: list[int] = []
        draw = self._first
        while len(taken) < n and self._pending.count:
            draw = self._pending.first_from(draw)
            shard = int(self._shards[draw])
            size_bytes = int(self._lengths[shard])
            max_bytes -= size_bytes
            if taken and max_bytes < 0:
                break
            if store_bytes is not None and not self._resident[shard]:
                if store_bytes <= 0:
                    break
                store_bytes -= size_bytes
            self._pending.remove(draw)
            taken.append(draw)
        self._first = draw
        return taken

    def give_back(self, shards: Iterable[int]) -> None:
        for draw in shards:
            if self._pending.add(draw):
                self._first = min(self._first, draw)

    def remove(self, shards: Iterable[int]) -> None:
        for draw in shards:
            self._pending.remove(draw)

    def residency_changed(self, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """It does not matter."""

    def place(self, shard: int) -> Place:
        return NOWHERE

    def close(self) -> None:
        """Nothing to do."""
