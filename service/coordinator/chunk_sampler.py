"""Which shards a session takes next where its data set is cached by chunks (Quiver, FAST'20, Algorithm 1). Pure.

First what is resident of the chunks that the rotation lets it use; when too few, missing shards of a chunk that is
loading, which it thereby helps to load, at random so that sessions seldom ask for the same: that is the co-operative
miss; and the rest in later passes, when those chunks have their turn.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.chunk_layout import ChunkLayout
from tfquiver.service.coordinator.rotation.interface import Menu
from tfquiver.service.coordinator.sampler import NOWHERE, Place


class ChunkUse(Protocol):
    """One session's side of the rotation."""

    @property
    def version(self) -> int:
        """Changes whenever the menu may have."""

    def menu(self) -> Menu: ...
    def took(self, chunk: int, size_bytes: int) -> None: ...
    def gave_back(self, chunk: int, size_bytes: int) -> None: ...
    def use_started(self, chunk: int) -> None: ...
    def use_ended(self, chunk: int) -> None: ...
    def finished(self) -> None:
        """The session has ended, or nobody reads it at the moment."""


class AllAtOnce:
    """The ChunkUse of a session over a data set that is not cached by chunks: all of it may be read at any time.

    Units are read one after the other, whatever is resident: to go back to a unit for what was missing of it would make
    two of one.
    """

    version = 0

    def __init__(self, chunks: int) -> None:
        self._menu = Menu(direct=tuple(range(chunks)))

    def menu(self) -> Menu:
        return self._menu

    def took(self, chunk: int, size_bytes: int) -> None: ...
    def gave_back(self, chunk: int, size_bytes: int) -> None: ...
    def use_started(self, chunk: int) -> None: ...
    def use_ended(self, chunk: int) -> None: ...
    def finished(self) -> None: ...


class ChunkSampler:
    """A Sampler. O(1) a shard, but for the choice of a stripe unit; 8 bytes a shard are kept.

    `_order` holds the shards by segment; each segment has three zones, the borders of which move by swaps: first
    pending and resident, then pending and missing, then not pending.
    """

    def __init__(
        self,
        layout: ChunkLayout,
        pending: npt.NDArray[np.bool_],
        in_hand: Iterable[int],
        resident: bytearray,
        lengths: Sequence[int] | npt.NDArray[np.uint64],
        use: ChunkUse,
        rng: random.Random,
        mix: int = 1,
    ) -> None:
        """`use` knows the session with what `pending` says.

        Args:
          pending: shape [shards]: neither taken nor read.
          in_hand: shards that have been taken, and neither given back nor read.
          resident: a byte a shard, 0 or 1, kept by the caller.
          lengths: bytes of each shard.
          mix: how many chunks hits are drawn from at a time, where so many have any.
        """
        is_resident = np.frombuffer(resident, np.uint8) != 0
        order, counts = layout.zoned((pending & is_resident, pending & ~is_resident, ~pending))
        position = np.empty(len(order), np.uint32)
        position[order] = np.arange(len(order), dtype=np.uint32)
        self._order, self._position = array("I", order.tobytes()), array("I", position.tobytes())
        self._resident_end = [start + int(n) for start, n in zip(layout.starts, counts[0], strict=False)]
        self._pending_end = [end + int(n) for end, n in zip(self._resident_end, counts[1], strict=True)]
        self._pending = int(pending.sum())
        self._layout, self._is_resident, self._lengths = layout, resident, lengths
        self._use, self._rng, self._mix = use, rng, mix
        self._menu, self._menu_version = Menu(), -1
        self._in_hand: set[int] = set()
        self._taken_whole: set[int] = set()  # chunks of which the last take left nothing pending
        self._in_hand_of = [0] * layout.chunks
        self._unit: dict[int, int] = {}  # of each chunk, the segment that was last drawn from
        for shard in in_hand:
            self._take_in_hand(shard)

    @property
    def pending(self) -> int:
        return self._pending

    def take(self, n: int, max_bytes: int) -> list[int]:
        """Fewer than asked for, or none, also when the rotation has nothing for this session at the moment.

        What was taken before is in the reader's node by now, which opens shards as they are leased: chunks of which
        nothing else is pending need not stay for it. To wait for acks would pin all that readers have in their pools.
        """
        for chunk in self._taken_whole:
            if not self._is_pending(chunk):
                self._use.use_ended(chunk)
        self._taken_whole.clear()
        taken: list[int] = []
        size_bytes = 0
        while len(taken) < n and self._pending:
            shard = self._next()
            if shard is None:
                break
            size_bytes += int(self._lengths[shard])
            if taken and size_bytes > max_bytes:
                break
            self._leave(shard)
            self._take_in_hand(shard)
            taken.append(shard)
            chunk = self._layout.chunk_of[shard]
            if not self._is_pending(chunk):
                self._taken_whole.add(chunk)
        return taken

    def give_back(self, shards: Iterable[int]) -> None:
        for shard in shards:
            segment, chunk = self._layout.segment_of[shard], self._layout.chunk_of[shard]
            if self._position[shard] < self._pending_end[segment]:
                continue
            self._swap(self._position[shard], self._pending_end[segment])
            self._pending_end[segment] += 1
            self._pending += 1
            self._use.gave_back(chunk, int(self._lengths[shard]))
            if self._is_resident[shard]:
                self._swap(self._position[shard], self._resident_end[segment])
                self._resident_end[segment] += 1
            self._out_of_hand(shard)

    def remove(self, shards: Iterable[int]) -> None:
        for shard in shards:
            if self._position[shard] < self._pending_end[self._layout.segment_of[shard]]:
                self._leave(shard)
            self._out_of_hand(shard)

    def residency_changed(self, shards: Iterable[int]) -> None:
        for shard in shards:
            segment, position = self._layout.segment_of[shard], self._position[shard]
            end = self._resident_end[segment]
            if position >= self._pending_end[segment]:
                continue
            if self._is_resident[shard] and position >= end:
                self._swap(position, end)
                self._resident_end[segment] += 1
            elif not self._is_resident[shard] and position < end:
                self._resident_end[segment] -= 1
                self._swap(position, end - 1)

    def place(self, shard: int) -> Place:
        return Place(unit=self._layout.segment_of[shard] + 1) if self._layout.homogeneous else NOWHERE

    def close(self) -> None:
        self._use.finished()

    # What comes next.

    def _next(self) -> int | None:
        if self._menu_version != self._use.version:
            self._menu, self._menu_version = self._use.menu(), self._use.version
        hits: list[int] = []  # segments
        for chunk in self._menu.hits:
            segment = self._segment(chunk, self._layout.starts, self._resident_end)
            if segment is not None:
                hits.append(segment)
                if len(hits) == self._mix:
                    break
        if hits:
            return self._draw(hits, self._layout.starts, self._resident_end)
        for chunk in self._menu.misses:
            segment = self._segment(chunk, self._resident_end, self._pending_end)
            if segment is not None:
                # At random each time, as in the paper. Sweeps from a random place on meet less often as a rule, but
                # two that meet go on in step, and fetch the same shards to the end.
                return self._draw([segment], self._resident_end, self._pending_end)
        for chunk in self._menu.direct:
            segment = self._segment(chunk, self._layout.starts, self._pending_end)
            if segment is not None:
                return self._draw([segment], self._layout.starts, self._pending_end)
        return None

    def _segment(self, chunk: int, starts: Sequence[int], ends: Sequence[int]) -> int | None:
        """One of the chunk's that is not empty between these borders; as long as it lasts, the same."""
        segments = self._layout.segments_of(chunk)
        last = self._unit.get(chunk, segments.start)
        if starts[last] < ends[last]:
            return last
        if len(segments) == 1:
            return None
        filled = [segment for segment in segments if starts[segment] < ends[segment]]
        if not filled:
            return None
        self._unit[chunk] = filled[int(self._rng.random() * len(filled))]
        return self._unit[chunk]

    def _draw(self, segments: list[int], starts: Sequence[int], ends: Sequence[int]) -> int:
        at = int(self._rng.random() * sum(ends[segment] - starts[segment] for segment in segments))
        for segment in segments[:-1]:
            if at < ends[segment] - starts[segment]:
                return self._order[starts[segment] + at]
            at -= ends[segment] - starts[segment]
        return self._order[starts[segments[-1]] + at]

    # Book-keeping.

    def _take_in_hand(self, shard: int) -> None:
        if shard not in self._in_hand:
            self._in_hand.add(shard)
            chunk = self._layout.chunk_of[shard]
            self._in_hand_of[chunk] += 1
            self._use.use_started(chunk)

    def _out_of_hand(self, shard: int) -> None:
        chunk = self._layout.chunk_of[shard]
        if shard in self._in_hand:
            self._in_hand.remove(shard)
            self._in_hand_of[chunk] -= 1
        if not self._in_hand_of[chunk] and not self._is_pending(chunk):
            self._use.use_ended(chunk)

    def _is_pending(self, chunk: int) -> bool:
        starts, ends = self._layout.starts, self._pending_end
        return any(starts[segment] < ends[segment] for segment in self._layout.segments_of(chunk))

    def _leave(self, shard: int) -> None:
        """From its zone to the border of the next, until it is not pending."""
        segment, position = self._layout.segment_of[shard], self._position[shard]
        if position < self._resident_end[segment]:
            self._resident_end[segment] -= 1
            self._swap(position, self._resident_end[segment])
            position = self._resident_end[segment]
        self._pending_end[segment] -= 1
        self._swap(position, self._pending_end[segment])
        self._pending -= 1
        self._use.took(self._layout.chunk_of[shard], int(self._lengths[shard]))

    def _swap(self, a: int, b: int) -> None:
        order, position = self._order, self._position
        first, second = order[a], order[b]
        order[a], order[b] = second, first
        position[first], position[second] = b, a
