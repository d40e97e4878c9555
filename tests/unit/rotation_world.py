"""A data set that is cached by chunks, its store and its sessions, one small step at a time."""

from __future__ import annotations

import random

import numpy as np

from tfquiver.service.coordinator.chunk_rotation.board import Board
from tfquiver.service.coordinator.chunk_rotation.chunk_cache import ChunkCache
from tfquiver.service.coordinator.chunk_rotation.cyclic import Cyclic
from tfquiver.service.coordinator.chunk_rotation.interface import Decision
from tfquiver.service.coordinator.chunk_rotation.relevance import Relevance
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_layout import ChunkLayout
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_sampler import ChunkSampler
from tfquiver.shard_owners_chunks_hash_prefixes import striping

TIMEOUT_S = 100.0


class World:
    """Carries out orders, and checks each against what it has seen: nothing is evicted under a reader too early."""

    def __init__(self, order: str, shards: int, chunks: int, share: float, seed: int, left: frozenset[int]) -> None:
        """`left`: shards that were resident before."""
        rng = np.random.default_rng(seed)
        self.lengths = rng.integers(1, 50, shards).astype(np.uint64)
        cut = striping.stripe(self.lengths, chunks)
        self.order, self.now, self.rng = order, 0.0, random.Random(seed)
        self.resident = bytearray(shards)
        two_bytes = int(np.sort(cut.sizes_bytes)[-2:].sum())
        self.allocation_bytes = max(two_bytes, int(share * self.lengths.sum()))
        for shard in sorted(left):
            if self.resident_bytes + int(self.lengths[shard]) <= self.allocation_bytes:
                self.resident[shard] = 1
        kind = Cyclic if order == "cyclic" else Relevance
        self.cache = ChunkCache(
            ChunkLayout(cut, rng), self.lengths, self.resident, self.allocation_bytes, lambda b: self._rotation(kind, b)
        )
        self.samplers: dict[str, ChunkSampler] = {}
        self.read: dict[str, set[int]] = {}
        self.in_hand: dict[str, set[int]] = {}
        self.names = 0
        self.full = False  # of what the coordinator does not know of: nothing that is fetched stands
        self.decision = Decision()
        self.kept: set[int] = set()
        self.finishes = list(self.cache.board.finishes)
        self.since: dict[int, float] = {}  # of each kept chunk: when it was complete, or the first finished it
        self.grown_at: dict[int, float] = {}  # when the last of a kept chunk came in: it may be that no more will
        self.grown_to: dict[int, int] = {}
        self.decide()

    @staticmethod
    def _rotation(kind: type[Cyclic] | type[Relevance], board: Board) -> Cyclic | Relevance:
        return kind(board, TIMEOUT_S)

    @property
    def resident_bytes(self) -> int:
        return int(self.lengths[np.frombuffer(self.resident, np.uint8) != 0].sum())

    @property
    def chunks(self) -> int:
        return self.cache.layout.chunks

    def decide(self) -> None:
        board = self.cache.board
        readers = list(board.readers)
        for chunk in self.kept:  # also by who took the last of it, or closed
            if board.finishes[chunk] > self.finishes[chunk]:
                self.since[chunk] = min(self.now, self.since.get(chunk, self.now))
        self.finishes = list(board.finishes)
        self.decision = self.cache.decide(self.now)
        kept = {chunk for chunk in range(self.chunks) if self.cache.rotation.keeps(chunk)}
        for chunk in self.kept - kept:
            early = self.now < self.since.get(chunk, self.grown_at[chunk]) + TIMEOUT_S
            assert not (readers[chunk] and early), f"chunk {chunk} was evicted under {readers[chunk]} readers"
        for chunk in kept:
            if chunk not in self.kept:
                self.since.pop(chunk, None)
                self.grown_at[chunk], self.grown_to[chunk] = self.now, board.resident[chunk]
            if board.resident[chunk] > self.grown_to[chunk]:
                self.grown_at[chunk], self.grown_to[chunk] = self.now, board.resident[chunk]
            if board.complete(chunk):
                self.since.setdefault(chunk, self.now)
        self.kept = kept
        assert not set(self.decision.load) & set(self.decision.evict)

    def open(self) -> str:
        session = f"s{self.names}"
        self.names += 1
        pending = np.ones(len(self.lengths), np.bool_)
        self.samplers[session] = self.cache.open(session, pending, (), random.Random(self.names))
        self.read[session], self.in_hand[session] = set(), set()
        self.decide()
        return session

    def take(self, session: str, n: int) -> list[int]:
        shards = self.samplers[session].take(n, 1 << 40)
        fresh = [shard for shard in shards if not self.resident[shard] and self.cache.keeps(shard)]
        assert not set(shards) & (self.read[session] | self.in_hand[session]), "handed out twice"
        self.in_hand[session].update(shards)
        self.arrive([] if self.full else fresh)
        return shards

    def give_back(self, session: str, shards: list[int]) -> None:
        self.in_hand[session].difference_update(shards)
        self.samplers[session].give_back(shards)
        self.decide()

    def finish_reading(self, session: str, shards: list[int]) -> None:
        self.in_hand[session].difference_update(shards)
        self.read[session].update(shards)
        self.samplers[session].remove(shards)
        if len(self.read[session]) == len(self.lengths):
            self.close(session)
        self.decide()

    def close(self, session: str) -> None:
        self.cache.finish(session)
        del self.samplers[session]
        self.decide()

    def load(self, n: int) -> None:
        """The nodes bring in a few shards of what is to be loaded."""
        layout = self.cache.layout
        wanted = [shard for chunk in self.decision.load for shard in self._shards(layout, chunk)]
        self.arrive([] if self.full else [shard for shard in wanted if not self.resident[shard]][:n])

    def evict(self, n: int) -> None:
        layout = self.cache.layout
        there = [s for chunk in self.decision.evict for s in self._shards(layout, chunk) if self.resident[s]]
        self._flip(there[:n], 0)

    def lose(self, shards: list[int]) -> None:
        self._flip([shard for shard in shards if self.resident[shard]], 0)

    def allocate(self, part: float) -> None:
        """Nodes go, and come back: there is room for so much of the allocation, and for two chunks always."""
        two_bytes = sum(sorted(self.cache.board.sizes)[-2:])
        self.cache.board.allocate(max(two_bytes, int(part * self.allocation_bytes)))
        self.decide()

    def arrive(self, shards: list[int]) -> None:
        self._flip(shards, 1)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.decide()

    def _flip(self, shards: list[int], value: int) -> None:
        for shard in shards:
            self.resident[shard] = value
        self.cache.residency_changed(shards)
        for sampler in self.samplers.values():
            sampler.residency_changed(shards)
        self.decide()

    @staticmethod
    def _shards(layout: ChunkLayout, chunk: int) -> list[int]:
        return layout.shards_of(chunk)

    # What must always hold.

    def check(self) -> None:
        board = self.cache.board
        assert self.resident_bytes <= self.allocation_bytes
        assert sum(board.resident) == self.resident_bytes
        there = sum(size_bytes > 0 for size_bytes in board.resident)
        if self.order == "cyclic" and not self.decision.evict:
            assert there <= 2
        for session, sampler in self.samplers.items():
            assert sampler.pending + len(self.in_hand[session]) + len(self.read[session]) == len(self.lengths)

    def run_fairly(self, slow: frozenset[str] = frozenset()) -> None:
        """Everybody has a turn, time and again; `slow` ones never come back. All others must come to their end."""
        turns = 0
        while set(self.samplers) - slow:
            turns += 1
            progress = 0
            for session in sorted(set(self.samplers) - slow):
                shards = [*self.in_hand[session], *self.take(session, 2)]
                progress += len(shards)
                if shards:
                    self.finish_reading(session, shards)
            self.evict(1 << 30)
            self.load(2)
            self.wait(1.0 if progress else TIMEOUT_S / 4)
            self.check()
            assert turns < 400 + 20 * len(self.lengths), f"{sorted(self.samplers)} do not come to an end"
