"""Which shards a session takes next where its data set is cached by chunks (Quiver, FAST'20, Algorithm 1). Pure.

First what is resident of the chunks that the rotation lets it use; when too few, missing shards of a chunk that is
loading, which it thereby helps to load, at random so that sessions seldom ask for the same: that is the co-operative
miss; and the rest in later passes, when those chunks have their turn.
"""

from __future__ import annotations

import enum
import random
from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_layout import ChunkLayout, ResidentSlots
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_use import ChunkUse, Menu
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import NOWHERE, Place
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.slots import Bits, Slots, count, draw


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


class _Kind(enum.IntEnum):
    """What of a segment is wanted."""

    HITS = 0
    MISSES = 1
    DIRECT = 2  # both


class ChunkSampler:
    """A Sampler. O(1) a shard, by and large, and a bit and a little of each shard.

    Of each segment that is drawn from some shards stand in a window, drawn at random from all that were pending then,
    and resident or missing as wanted; what stands in it and is not so any more is passed over.
    """

    def __init__(
        self,
        layout: ChunkLayout,
        pending: npt.NDArray[np.bool_],
        in_hand: Iterable[int],
        there: ResidentSlots,
        lengths: Sequence[int] | npt.NDArray[np.uint64],
        use: ChunkUse,
        rng: random.Random,
        mix: int = 1,
        resident: bytearray | None = None,
    ) -> None:
        """`use` knows the session with what `pending` says.

        Args:
          pending: shape [shards]: neither taken nor read.
          in_hand: shards that have been taken, and neither given back nor read.
          there: of the same layout; told of changes by the caller.
          lengths: bytes of each shard.
          mix: how many chunks hits are drawn from at a time, where so many have any.
          resident: a byte a shard, where `there` does not know what is; None: it does.
        """
        all_pending = bool(pending.all())
        self._pending = Slots(layout.used if all_pending else layout.slots(pending))
        left = layout.counts if all_pending else layout.counts_of(pending)
        self._left = array("I", np.asarray(left, np.uint32).tobytes())  # pending, by segment
        before = np.concatenate(([0], np.cumsum(left, dtype=np.int64)))
        # Arrays, here and below: of a thousand sessions' lists each collection of garbage would look at every number.
        self._left_of = array("q", np.diff(before[layout.first_segment]).tobytes())
        self._layout, self._there, self._lengths = layout, there, lengths
        self._resident = there.resident if resident is None else resident
        self._use, self._mix = use, mix
        self._rng = np.random.default_rng(rng.getrandbits(64))
        self._menu, self._menu_version = Menu(), -1
        self._windows: dict[tuple[_Kind, int], array[int]] = {}  # slots; what is taken next comes last
        self._none: dict[tuple[_Kind, int], tuple[int, int]] = {}  # chunks that have none: versions when that was so
        self._given_back = 0
        self._in_hand: set[int] = set()
        self._taken_whole: set[int] = set()  # chunks of which the last take left nothing pending
        self._in_hand_of = array("I", bytes(4 * layout.chunks))
        self._unit: dict[int, int] = {}  # of each chunk, the segment that was last drawn from
        for shard in in_hand:
            self._take_in_hand(shard)

    @property
    def pending(self) -> int:
        return self._pending.count

    def take(self, n: int, max_bytes: int, store_bytes: float | None = None) -> list[int]:
        """Fewer than asked for, or none, also when the rotation has nothing for this session at the moment.

        What was taken before is in the reader's node by now, which opens shards as they are leased: chunks of which
        nothing else is pending need not stay for it. To wait for acks would pin all that readers have in their pools.
        """
        for chunk in self._taken_whole:
            if not self._left_of[chunk]:
                self._use.use_ended(chunk)
        self._taken_whole.clear()
        taken: list[int] = []
        left_bytes = max_bytes
        while len(taken) < n and self._pending.count:
            found = self._next()
            if found is None:
                break
            most = n - len(taken) if self._mix == 1 else 1
            some, some_bytes, more = self._take_from(*found, most, left_bytes, store_bytes, bool(taken))
            taken += some
            if not more:
                break
            left_bytes -= some_bytes
            if store_bytes is not None:
                store_bytes -= sum(int(self._lengths[shard]) for shard in some if not self._resident[shard])
        return taken

    def _take_from(
        self, kind: _Kind, segment: int, n: int, max_bytes: int, store_bytes: float | None, some: bool
    ) -> tuple[list[int], int, bool]:
        """Up to `n` of the segment, all of one chunk, which stays the first of the menu as long as it has any; their
        bytes; and whether more may be taken. `some` have been taken before."""
        window, shard_at, lengths, resident = (
            self._windows[kind, segment], self._layout.shard_at, self._lengths, self._resident,
        )  # fmt: skip
        pending, there = self._pending.bytes, self._there.bytes
        taken, slots, size_bytes, more = list[int](), list[int](), 0, True
        while window and len(taken) < n:
            slot = window[-1]
            at, bit = slot >> 3, slot & 7
            if not pending[at] >> bit & 1 or (kind is not _Kind.DIRECT and there[at] >> bit & 1 == kind):
                window.pop()
                continue
            shard = shard_at[slot]
            length = int(lengths[shard])
            if some and size_bytes + length > max_bytes:
                more = False
                break
            if store_bytes is not None and not resident[shard]:
                if store_bytes <= 0:
                    more = False
                    break
                store_bytes -= length
            size_bytes += length
            window.pop()
            slots.append(slot)
            taken.append(shard)
            some = True
        if taken:
            self._taken(taken, slots, segment, size_bytes)
        return taken, size_bytes, more

    def _taken(self, shards: list[int], slots: list[int], segment: int, size_bytes: int) -> None:
        """Of one segment."""
        chunk = self._layout.chunk_of[shards[0]]
        self._pending.remove_all(slots)
        self._left[segment] -= len(shards)
        self._left_of[chunk] -= len(shards)
        self._use.took(chunk, size_bytes)
        in_hand = len(self._in_hand)
        self._in_hand.update(shards)
        if came := len(self._in_hand) - in_hand:
            self._in_hand_of[chunk] += came
            self._use.use_started(chunk)
        if not self._left_of[chunk]:
            self._taken_whole.add(chunk)

    def give_back(self, shards: Iterable[int]) -> None:
        self._given_back += 1
        for shard in shards:
            chunk = self._layout.chunk_of[shard]
            if not self._pending.add(self._layout.slot_of[shard]):
                continue
            self._left[self._layout.segment_of[shard]] += 1
            self._left_of[chunk] += 1
            self._use.gave_back(chunk, int(self._lengths[shard]))
            self._out_of_hand(shard)

    def remove(self, shards: Iterable[int]) -> None:
        slot_of, chunk_of, pending, in_hand = (
            self._layout.slot_of, self._layout.chunk_of, self._pending.bytes, self._in_hand,
        )  # fmt: skip
        chunks = set[int]()
        for shard in shards:
            slot, chunk = slot_of[shard], chunk_of[shard]
            if pending[slot >> 3] >> (slot & 7) & 1:
                self._leave(shard, slot)
            if shard in in_hand:
                in_hand.remove(shard)
                self._in_hand_of[chunk] -= 1
            chunks.add(chunk)
        for chunk in chunks:
            self._end_use(chunk)

    def residency_changed(self, shards: Sequence[int] | npt.NDArray[np.integer]) -> None:
        """`there` knows."""

    def place(self, shard: int) -> Place:
        return Place(unit=self._layout.segment_of[shard] + 1) if self._layout.homogeneous else NOWHERE

    def close(self) -> None:
        self._use.finished()

    # What comes next.

    def _next(self) -> tuple[_Kind, int] | None:
        """What is wanted, and of which segment, whose window ends with the slot that is next."""
        if self._menu_version != self._use.version:
            self._menu, self._menu_version = self._use.menu(), self._use.version
        hits: list[int] = []  # segments
        for chunk in self._menu.hits:
            segment = self._segment(_Kind.HITS, chunk)
            if segment is not None:
                hits.append(segment)
                if len(hits) == self._mix:
                    break
        if hits:
            return _Kind.HITS, self._one_of(hits)
        # At random each time, as in the paper. Sweeps from a random place on meet less often as a rule, but two that
        # meet go on in step, and fetch the same shards to the end.
        for kind, chunks in ((_Kind.MISSES, self._menu.misses), (_Kind.DIRECT, self._menu.direct)):
            for chunk in chunks:
                segment = self._segment(kind, chunk)
                if segment is not None:
                    return kind, segment
        return None

    def _segment(self, kind: _Kind, chunk: int) -> int | None:
        """One of the chunk's whose window is not empty; as long as it lasts, the same."""
        if not self._left_of[chunk]:
            return None
        segments = self._layout.segments_of(chunk)
        last = self._unit.get(chunk, segments.start)
        if self._has(kind, last):
            return last
        versions = (self._there.versions[chunk], self._given_back)
        if self._none.get((kind, chunk)) == versions:
            return None
        segment = last if self._wanted(kind, self._layout.bytes_of_segment(last)).any() else self._any_of(kind, chunk)
        if segment is None:
            self._none[kind, chunk] = versions
            return None
        self._unit[chunk] = segment
        part = self._layout.bytes_of_segment(segment)
        self._windows[kind, segment], _ = draw(self._wanted(kind, part), self._rng, 8 * part.start)
        return segment

    def _any_of(self, kind: _Kind, chunk: int) -> int | None:
        """A segment, at random, that has what is wanted."""
        segments, layout = self._layout.segments_of(chunk), self._layout
        wanted = self._wanted(kind, layout.bytes_of(chunk))
        before = np.concatenate(([0], np.cumsum(wanted != 0)))
        edges = np.array(layout.first_byte[segments.start : segments.stop + 1]) - layout.first_byte[segments.start]
        filled = np.flatnonzero(np.diff(before[edges]))
        return segments[int(filled[int(self._rng.integers(len(filled)))])] if len(filled) else None

    def _has(self, kind: _Kind, segment: int) -> bool:
        """Whether its window ends with a slot that is wanted: passes over those that are not."""
        window = self._windows.get((kind, segment))
        if window is None:
            return False
        there, pending = self._there.bytes, self._pending.bytes
        while window:
            slot = window[-1]
            at, bit = slot >> 3, slot & 7
            if pending[at] >> bit & 1 and (kind is _Kind.DIRECT or there[at] >> bit & 1 != kind):
                return True
            window.pop()
        del self._windows[kind, segment]
        return False

    def _wanted(self, kind: _Kind, part: slice) -> Bits:
        """Of a part of the slots."""
        pending = self._pending.bits[part]
        if kind is _Kind.DIRECT:
            return pending
        there = self._there.bits[part]
        return pending & (there if kind is _Kind.HITS else ~there)

    def _one_of(self, segments: list[int]) -> int:
        """By how many hits they have."""
        if len(segments) == 1:
            return segments[0]
        parts = (self._layout.bytes_of_segment(segment) for segment in segments)
        counts = [count(self._wanted(_Kind.HITS, part)) for part in parts]
        at = int(self._rng.integers(sum(counts)))
        for segment, hits in zip(segments, counts, strict=True):
            if at < hits:
                return segment
            at -= hits
        raise AssertionError("at is below the sum")

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
        self._end_use(chunk)

    def _end_use(self, chunk: int) -> None:
        """If nothing of it is pending or in hand."""
        if not self._in_hand_of[chunk] and not self._left_of[chunk]:
            self._use.use_ended(chunk)

    def _leave(self, shard: int, slot: int) -> None:
        """It is not pending any more."""
        chunk = self._layout.chunk_of[shard]
        self._pending.remove(slot)
        self._left[self._layout.segment_of[shard]] -= 1
        self._left_of[chunk] -= 1
        self._use.took(chunk, int(self._lengths[shard]))
