"""The shards of a data set in the order of their chunks: what all its sessions' samplers share. Pure."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.slots import Bits
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct
from tfquiver.shard_owners_chunks_hash_prefixes.striping import Striping


class ChunkLayout:
    """Segments are what shards are drawn from, one at a time: the chunks, or, if `homogeneous`, their stripe units.

    Each shard has a slot. Those of a segment follow one another, in random order, and so do the segments of a chunk;
    each segment begins with a byte of a set of slots, so that a few slots are nobody's. `segment_of`, `slot_of` uint32
    [shards]; `shard_at` uint32 [slots]; the segments of chunk c are `first_segment[c]` to `first_segment[c + 1]`, the
    bytes of segment s are `first_byte[s]` to `first_byte[s + 1]`. About 16 bytes a shard. Read-only.
    """

    def __init__(self, striping: Striping, rng: np.random.Generator, homogeneous: bool = False) -> None:
        self.chunks, self.homogeneous = striping.chunks, homogeneous
        self.chunk_of = array("I", striping.chunk_of.tobytes())
        self.sizes_bytes: list[int] = striping.sizes_bytes.tolist()
        if homogeneous:
            # Units are renumbered so that those of a chunk follow one another.
            rank = np.empty(len(striping.chunk_of_unit), np.uint32)
            rank[np.argsort(striping.chunk_of_unit, kind="stable")] = np.arange(len(rank), dtype=np.uint32)
            segment_of, per_chunk = rank[striping.unit_of], np.bincount(striping.chunk_of_unit, minlength=self.chunks)
        else:
            segment_of, per_chunk = striping.chunk_of, np.ones(self.chunks, np.int64)
        self.first_segment: list[int] = [0, *np.cumsum(per_chunk).tolist()]
        counts = np.bincount(segment_of, minlength=self.first_segment[-1])
        self.segments = len(counts)
        self.counts = array("I", counts.astype(np.uint32).tobytes())
        bytes_ = (counts + 7) // 8
        first_byte = np.concatenate(([0], np.cumsum(bytes_)))
        self.first_byte: list[int] = first_byte.tolist()
        shuffled = rng.permutation(len(segment_of)).astype(np.uint32)
        order = shuffled[np.argsort(segment_of[shuffled], kind="stable")]  # the shards by segment
        before = np.cumsum(counts) - counts
        slots = np.arange(len(order)) + np.repeat(8 * first_byte[:-1] - before, counts)
        slot_of, shard_at = np.empty(len(order), np.uint32), np.zeros(8 * self.first_byte[-1], np.uint32)
        slot_of[order], shard_at[slots] = slots, order
        self.slot_of, self.shard_at = array("I", slot_of.tobytes()), array("I", shard_at.tobytes())
        self.segment_of = array("I", segment_of.astype(np.uint32).tobytes())
        used = np.zeros(len(shard_at), np.bool_)
        used[slots] = True
        self.used: npt.NDArray[np.bool_] = used  # slots that are somebody's

    def segments_of(self, chunk: int) -> range:
        return range(self.first_segment[chunk], self.first_segment[chunk + 1])

    def bytes_of(self, chunk: int) -> slice:
        """Of a set of slots, those of a chunk."""
        return slice(self.first_byte[self.first_segment[chunk]], self.first_byte[self.first_segment[chunk + 1]])

    def bytes_of_segment(self, segment: int) -> slice:
        return slice(self.first_byte[segment], self.first_byte[segment + 1])

    def shards_of(self, chunk: int) -> list[int]:
        """In random order."""
        part = self.bytes_of(chunk)
        slots = slice(8 * part.start, 8 * part.stop)
        shards: list[int] = np.frombuffer(self.shard_at, np.uint32)[slots][self.used[slots]].tolist()
        return shards

    def slots(self, shards: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """A mask of shards as one of slots."""
        slot_of, others = np.frombuffer(self.slot_of, np.uint32), np.flatnonzero(~shards)
        if 2 * len(others) <= len(shards):
            mask = self.used.copy()
            mask[slot_of[others]] = False
        else:
            mask = np.zeros(len(self.used), np.bool_)
            mask[slot_of[np.flatnonzero(shards)]] = True
        return mask

    def counts_of(self, shards: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """How many of them there are in each segment."""
        segment_of, others = np.frombuffer(self.segment_of, np.uint32), np.flatnonzero(~shards)
        if 2 * len(others) <= len(shards):
            counts = np.frombuffer(self.counts, np.uint32).astype(np.int64)
            return counts - np.bincount(segment_of[others], minlength=self.segments)
        return np.bincount(segment_of[np.flatnonzero(shards)], minlength=self.segments)


class ResidentSlots:
    """Which slots of a layout hold resident shards; all sessions over the data set share it."""

    def __init__(self, layout: ChunkLayout, resident: bytearray) -> None:
        """`resident`: a byte a shard, 0 or 1, kept by the caller, who tells of changes."""
        self._layout, self.resident = layout, resident
        mask = layout.slots(np.frombuffer(resident, np.uint8) != 0)
        self.bytes = bytearray(np.packbits(mask, bitorder="little").tobytes())  # for who looks at one after the other
        self.bits: Bits = np.frombuffer(self.bytes, np.uint8)
        self.versions = [0] * layout.chunks  # of each chunk; grows whenever its resident shards are others

    def changed(self, shards: npt.NDArray[np.integer]) -> None:
        """The entries of these have changed, or may have."""
        slots = np.frombuffer(self._layout.slot_of, np.uint32)[shards]
        there = np.frombuffer(self.resident, np.uint8)[shards] != 0
        bit = np.left_shift(np.uint8(1), (slots & 7).astype(np.uint8))
        np.bitwise_or.at(self.bits, slots[there] >> 3, bit[there])
        np.bitwise_and.at(self.bits, slots[~there] >> 3, ~bit[~there])
        for chunk in distinct(np.frombuffer(self._layout.chunk_of, np.uint32)[shards]).tolist():
            self.versions[chunk] += 1
