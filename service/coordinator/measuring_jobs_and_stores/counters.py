"""Cumulative counters, as readers report them and as jobs add them up. Pure."""

from __future__ import annotations

from dataclasses import dataclass

LEAST_STALL_SHARE = 0.1  # of its time: who waits less is no slower for it


@dataclass(frozen=True, slots=True)
class Counters:
    """Since a reader's first draw, or since a job was first heard of. Nothing in it ever falls.

    `elapsed_s` is the time in which somebody read: of a job with several readers at a time it counts once, `reader_s`
    once for each of them, and `waited_s` is a part of `reader_s`. `hit_bytes` and `missed_bytes` have been handed to
    readers, and are delivered when all before them in their buffers are.
    """

    records: int = 0
    size_bytes: int = 0  # delivered to the pipeline, TFRecord framing included
    waited_s: float = 0.0  # for data
    elapsed_s: float = 0.0
    reader_s: float = 0.0
    hit_bytes: int = 0  # from the cache: memory, a disk, another node
    missed_bytes: int = 0  # from the store

    def since(self, before: Counters) -> Counters:
        return Counters(
            self.records - before.records,
            self.size_bytes - before.size_bytes,
            self.waited_s - before.waited_s,
            self.elapsed_s - before.elapsed_s,
            self.reader_s - before.reader_s,
            self.hit_bytes - before.hit_bytes,
            self.missed_bytes - before.missed_bytes,
        )

    def plus(self, more: Counters) -> Counters:
        return Counters(
            self.records + more.records,
            self.size_bytes + more.size_bytes,
            self.waited_s + more.waited_s,
            self.elapsed_s + more.elapsed_s,
            self.reader_s + more.reader_s,
            self.hit_bytes + more.hit_bytes,
            self.missed_bytes + more.missed_bytes,
        )

    @property
    def bytes_per_s(self) -> float:
        return self.size_bytes / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def stall_share(self) -> float:
        return min(self.waited_s / self.reader_s, 1.0) if self.reader_s > 0 else 0.0

    @property
    def hit_share(self) -> float | None:
        """None: nothing was handed out."""
        handed_bytes = self.hit_bytes + self.missed_bytes
        return self.hit_bytes / handed_bytes if handed_bytes > 0 else None
