"""One data set that is cached by chunks: joins its layout, the board, the rotation and its sessions' samplers. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.chunk_rotation.board import Board
from tfquiver.service.coordinator.chunk_rotation.interface import Decision, Rotation
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_layout import ChunkLayout, ResidentSlots
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_sampler import ChunkSampler
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_use import Menu
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """What was resident at one moment: a byte a shard, and bytes by chunk. Of five million shards it takes 60 ms."""

    resident: npt.NDArray[np.uint8]
    by_chunk: npt.NDArray[np.int64]

    @staticmethod
    def of(layout: ChunkLayout, lengths: npt.NDArray[np.uint64], resident: bytearray) -> Counted:
        """In any thread."""
        there = np.frombuffer(bytes(resident), np.uint8)
        numbers = np.flatnonzero(there)
        chunk_of = np.frombuffer(layout.chunk_of, np.uint32)[numbers]
        return Counted(there, np.bincount(chunk_of, lengths[numbers], layout.chunks).astype(np.int64))


class ChunkCache:
    """Whoever changes a residency byte tells `residency_changed` before the samplers."""

    def __init__(
        self,
        layout: ChunkLayout,
        lengths: Sequence[int] | npt.NDArray[np.uint64],
        resident: bytearray,
        allocation_bytes: int,
        rotation: Callable[[Board], Rotation],
        by_chunk: Sequence[int] | None = None,
        counted: Counted | None = None,
    ) -> None:
        """Takes over what is resident.

        Args:
          lengths: bytes that each shard takes of the allocation.
          resident: a byte a shard, kept by the caller.
          by_chunk: `lengths` of each chunk together, where that is known: of millions of shards it takes some ms.
          counted: what was resident a while ago, where that is known: then only what has changed since is counted here.

        Raises: InvalidArgumentError (the allocation is too small).
        """
        self.layout, self._resident = layout, resident
        self._lengths = np.asarray(lengths)
        self._there: dict[ChunkLayout, ResidentSlots] = {}  # of each layout that sessions have used
        sizes = self._bytes_of(np.arange(len(resident))).tolist() if by_chunk is None else by_chunk
        self.board = Board(sizes, allocation_bytes)
        self._counted = np.zeros(len(resident), np.uint8)
        if counted is not None:
            self._counted[:] = counted.resident
            for chunk in np.flatnonzero(counted.by_chunk).tolist():
                self.board.shard_resident(chunk, int(counted.by_chunk[chunk]))
        self._count(np.flatnonzero(np.frombuffer(resident, np.uint8) != self._counted))
        self.rotation = rotation(self.board)

    def open(
        self,
        session: str,
        pending: npt.NDArray[np.bool_],
        in_hand: Iterable[int],
        rng: random.Random,
        mix: int = 1,
        layout: ChunkLayout | None = None,
    ) -> ChunkSampler:
        """The sampler of a session that begins, or goes on with what is pending. `pending` has the shape [shards].

        `layout`: of the same chunks, for a session that draws from their stripe units.
        """
        self.board.session_opened(session, self.board.sizes if pending.all() else self._by_chunk(pending))
        use, layout = SessionUse(self, session), layout or self.layout
        if layout not in self._there:
            self._there[layout] = ResidentSlots(layout, self._resident)
        return ChunkSampler(layout, pending, in_hand, self._there[layout], self._lengths, use, rng, mix)

    def finish(self, session: str) -> None:
        """It has ended, or nobody reads it at the moment. Repeatable."""
        self.board.session_finished(session)

    def residency_changed(self, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        self._count(distinct(np.asarray(shards, np.int64)))

    def _count(self, numbers: npt.NDArray[np.int64]) -> None:
        """Those of these shards, each there once, that have changed."""
        resident = np.frombuffer(self._resident, np.uint8)
        numbers = numbers[resident[numbers] != self._counted[numbers]]
        self._counted[numbers] = resident[numbers]
        there = resident[numbers] != 0
        for which, change in ((there, self.board.shard_resident), (~there, self.board.shard_gone)):
            chunk_of = np.frombuffer(self.layout.chunk_of, np.uint32)[numbers[which]]
            sizes = np.bincount(chunk_of, self._lengths[numbers[which]], self.layout.chunks)
            for chunk in np.flatnonzero(sizes).tolist():
                change(chunk, int(sizes[chunk]))
        for slots in self._there.values():
            slots.changed(numbers)

    def decide(self, now: float) -> Decision:
        return self.rotation.decide(now)

    def keeps(self, shard: int) -> bool:
        """Whether the shard's owner is to keep it when it is fetched now."""
        return self.rotation.keeps(self.layout.chunk_of[shard])

    def _by_chunk(self, shards: npt.NDArray[np.bool_]) -> list[int]:
        """Bytes of these shards by chunk."""
        others = np.flatnonzero(~shards)
        if 2 * len(others) <= len(shards):  # as where somebody goes on: of millions it takes a tenth of a second else
            sums = np.array(self.board.sizes, np.int64) - self._bytes_of(others)
        else:
            sums = self._bytes_of(np.flatnonzero(shards))
        return [int(size_bytes) for size_bytes in sums]

    def _bytes_of(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Of these shards, by chunk."""
        chunk_of = np.frombuffer(self.layout.chunk_of, np.uint32)[numbers]
        return np.bincount(chunk_of, self._lengths[numbers], self.layout.chunks).astype(np.int64)


class SessionUse:
    """The ChunkUse of one session. What it tells of a session that has finished is not heard."""

    def __init__(self, cache: ChunkCache, session: str) -> None:
        self._cache, self._session = cache, session

    @property
    def version(self) -> int:
        return self._cache.rotation.version

    def menu(self) -> Menu:
        return self._cache.rotation.menu(self._session) if self._open else Menu()

    def took(self, chunk: int, size_bytes: int) -> None:
        if self._open:
            self._cache.board.took(self._session, chunk, size_bytes)

    def gave_back(self, chunk: int, size_bytes: int) -> None:
        if self._open:
            self._cache.board.gave_back(self._session, chunk, size_bytes)

    def use_started(self, chunk: int) -> None:
        if self._open:
            self._cache.board.use_started(self._session, chunk)

    def use_ended(self, chunk: int) -> None:
        if self._open:
            self._cache.board.use_ended(self._session, chunk)

    def finished(self) -> None:
        self._cache.finish(self._session)

    @property
    def _open(self) -> bool:
        return self._session in self._cache.board.sessions
