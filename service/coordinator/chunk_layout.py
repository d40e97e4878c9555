"""The shards of a data set in the order of their chunks: what all its sessions' samplers share. Pure."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from tfquiver.striping import Striping


class ChunkLayout:
    """Segments are what shards are drawn from, one at a time: the chunks, or, if `homogeneous`, their stripe units.

    `segment_of` uint32 [shards]; `starts` [segments + 1], of each segment in an order by segments; the segments of
    chunk c are `first_segment[c]` to `first_segment[c + 1]`; `order` is the shards by segment, within a segment at
    random. 12 bytes a shard. Read-only.
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
        self.starts: list[int] = [0, *np.cumsum(counts).tolist()]
        shuffled = rng.permutation(len(segment_of)).astype(np.uint32)
        self.order: npt.NDArray[np.uint32] = shuffled[np.argsort(segment_of[shuffled], kind="stable")]
        self.segment_of = array("I", segment_of.astype(np.uint32).tobytes())
        self.segments = len(counts)

    def segments_of(self, chunk: int) -> range:
        return range(self.first_segment[chunk], self.first_segment[chunk + 1])

    def zoned(
        self, zones: tuple[npt.NDArray[np.bool_], ...]
    ) -> tuple[npt.NDArray[np.uint32], tuple[npt.NDArray[np.int64], ...]]:
        """The shards by segment and zone, and how many each segment has of each zone.

        `zones`: masks of the shape [shards] of which exactly one is true for each shard.
        """
        order = np.empty_like(self.order)
        starts = np.asarray(self.starts, np.int64)
        at, counts = starts[:-1].copy(), []
        for zone in zones:
            inside = zone[self.order]
            before = np.concatenate(([0], np.cumsum(inside)))
            count = before[starts[1:]] - before[starts[:-1]]
            # The n-th of this zone in its segment goes n places after where the zone begins there.
            members = np.flatnonzero(inside)
            segment = np.repeat(np.arange(self.segments), count)
            order[at[segment] + np.arange(len(members)) - before[starts[:-1]][segment]] = self.order[members]
            at += count
            counts.append(count)
        return order, tuple(counts)
