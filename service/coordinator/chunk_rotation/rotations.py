"""The rotations of all data sets that are cached by chunks: when they decide, and what they have decided. Pure.

Nothing of this is journaled: decisions are told again until they have been carried out, and after a restart a rotation
goes on from what is resident.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tfquiver.clock import Clock
from tfquiver.digests.digest import Digest
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.chunk_rotation.board import Board
from tfquiver.service.coordinator.chunk_rotation.chunk_cache import ChunkCache, Counted
from tfquiver.service.coordinator.chunk_rotation.cyclic import Cyclic
from tfquiver.service.coordinator.chunk_rotation.interface import Decision, Rotation
from tfquiver.service.coordinator.chunk_rotation.relevance import Relevance
from tfquiver.service.coordinator.chunk_rotation.room import check_room
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_layout import ChunkLayout
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import Sampler
from tfquiver.service.coordinator.sessions.session import Session
from tfquiver.shard_owners_chunks_hash_prefixes import prefixes, striping


class ChunkPlan:
    """Chunks of one data set. Making it takes a while for millions of shards: do it in a thread."""

    def __init__(
        self,
        lengths: npt.NDArray[np.uint64],
        contents: npt.NDArray[np.uint64],
        seed: int,
        setting: types_pb2.CacheSetting,
    ) -> None:
        """As `stripe` wants them. Raises InvalidArgumentError when the allocation has no room for two chunks."""
        cut = striping.stripe(lengths, setting.chunks, setting.partitions, contents)
        self.layout = ChunkLayout(cut, np.random.default_rng(seed))
        self._cut, self._seed = cut, seed
        self.sizes_bytes = most_disk_bytes(lengths).astype(np.uint64)
        self.setting = setting
        self._counted: Counted | None = None
        self.by_chunk: list[int] = np.bincount(cut.chunk_of, self.sizes_bytes, cut.chunks).astype(np.int64).tolist()
        check_room(self.by_chunk, setting.allocation_bytes)
        self.two_bytes: int = sum(sorted(self.by_chunk)[-2:])  # of the two largest: the least that has to have room

    def count(self, resident: bytearray) -> None:
        """What there is, for the rotation that is to begin; what changes until then is seen when it does."""
        self._counted = Counted.of(self.layout, self.sizes_bytes, resident)

    def take_counted(self) -> Counted | None:
        """Once: it takes a byte a shard."""
        counted, self._counted = self._counted, None
        return counted

    def has_room(self, allocation_bytes: int) -> bool:
        """Whether these chunks could rotate within so many bytes."""
        return self.two_bytes <= allocation_bytes

    @functools.cached_property
    def units(self) -> ChunkLayout:
        """The same chunks by stripe unit, for homogeneous sessions. Made when first asked for: in a thread."""
        return ChunkLayout(self._cut, np.random.default_rng(self._seed), homogeneous=True)

    @property
    def has_units(self) -> bool:
        return "units" in vars(self)

    @classmethod
    def of(cls, digest: Digest, setting: types_pb2.CacheSetting) -> ChunkPlan:
        return cls(digest.lengths, prefixes.of_rows(digest.hashes), prefixes.number_of(digest.content_root), setting)


class Rotations:
    def __init__(self, clock: Clock, timeout_s: float, wake: Callable[[bytes], None]) -> None:
        """
        Args:
          timeout_s: see the rotations.
          wake: told of a data set of which sessions may read something else now.
        """
        self._clock, self._timeout_s, self._wake = clock, timeout_s, wake
        self._caches: dict[bytes, ChunkCache] = {}
        self._plans: dict[bytes, ChunkPlan] = {}
        self._decisions: dict[bytes, Decision] = {}
        self._decided: dict[bytes, tuple[int, int]] = {}  # versions of board and rotation then
        self.orders = 0  # grows whenever a decision is another than before

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._caches)

    def __len__(self) -> int:
        return len(self._caches)

    def __contains__(self, digest_id: bytes) -> bool:
        return digest_id in self._caches

    def start(self, digest_id: bytes, plan: ChunkPlan, resident: bytearray) -> None:
        """Begins to rotate, with what is resident."""

        def rotation(board: Board) -> Rotation:
            kind = Cyclic if plan.setting.rotation == "cyclic" else Relevance
            return kind(board, self._timeout_s, self._clock.now())

        self._caches[digest_id] = ChunkCache(
            plan.layout,
            plan.sizes_bytes,
            resident,
            plan.setting.allocation_bytes,
            rotation,
            plan.by_chunk,
            plan.take_counted(),
        )
        self._plans[digest_id] = plan
        self._decide(digest_id)

    def stop(self, digest_id: bytes) -> None:
        self._caches.pop(digest_id, None)
        self._plans.pop(digest_id, None)
        self._decided.pop(digest_id, None)
        if self._decisions.pop(digest_id, None):
            self.orders += 1

    def plan(self, digest_id: bytes) -> ChunkPlan | None:
        """None: it does not rotate, or not yet."""
        return self._plans.get(digest_id)

    def board(self, digest_id: bytes) -> Board | None:
        """None: it does not rotate, or not yet."""
        cache = self._caches.get(digest_id)
        return cache.board if cache else None

    def allocate(self, digest_id: bytes, share: float) -> None:
        """So much of its allocation there is room for now; two chunks always are."""
        plan = self._plans[digest_id]
        self._caches[digest_id].board.allocate(max(plan.two_bytes, int(plan.setting.allocation_bytes * share)))

    def sampler(self, session: Session, rng: random.Random) -> Sampler:
        cache = self._caches[session.digest_id]
        layout = self._plans[session.digest_id].units if session.homogeneous else None
        return cache.open(session.session_id, session.pending_mask(), session.leased, rng, layout=layout)

    def residency_changed(self, digest_id: bytes, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """Before the sessions are told."""
        if digest_id in self._caches:
            self._caches[digest_id].residency_changed(shards)

    def keeps(self, digest_id: bytes, shard: int) -> bool:
        """Whether a shard that is fetched now is to be kept."""
        return digest_id not in self._caches or self._caches[digest_id].keeps(shard)

    def decision(self, digest_id: bytes) -> Decision:
        return self._decisions.get(digest_id, Decision())

    def look(self, digest_id: bytes) -> None:
        """Something may have happened: decides again if it has."""
        cache = self._caches.get(digest_id)
        if cache and self._decided[digest_id] != (cache.board.version, cache.rotation.version):
            self._decide(digest_id)

    def tick(self, digest_id: bytes) -> None:
        """Time has passed. Call it now and then, of each."""
        self._decide(digest_id)

    def _decide(self, digest_id: bytes) -> None:
        cache = self._caches[digest_id]
        decision = cache.decide(self._clock.now())
        before, now = self._decided.get(digest_id), (cache.board.version, cache.rotation.version)
        self._decided[digest_id] = now
        if decision != self._decisions.get(digest_id):
            self._decisions[digest_id] = decision
            self.orders += 1
        if before != now:
            self._wake(digest_id)
