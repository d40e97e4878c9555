"""Cumulative counters, as readers report them and as jobs add them up. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counters:
    """Since a reader's first draw, or since a job was first heard of. Nothing in it ever falls.

    `elapsed_s` is the time in which somebody read: of a job with several readers at a time it counts once, `reader_s`
    once for each of them, and `waited_s` is a part of `reader_s`.
    """

    records: int = 0
    size_bytes: int = 0  # delivered to the pipeline, TFRecord framing included
    waited_s: float = 0.0  # for data
    elapsed_s: float = 0.0
    reader_s: float = 0.0

    def since(self, before: Counters) -> Counters:
        return Counters(
            self.records - before.records,
            self.size_bytes - before.size_bytes,
            self.waited_s - before.waited_s,
            self.elapsed_s - before.elapsed_s,
            self.reader_s - before.reader_s,
        )

    def plus(self, more: Counters) -> Counters:
        return Counters(
            self.records + more.records,
            self.size_bytes + more.size_bytes,
            self.waited_s + more.waited_s,
            self.elapsed_s + more.elapsed_s,
            self.reader_s + more.reader_s,
        )

    @property
    def bytes_per_s(self) -> float:
        return self.size_bytes / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def stall_share(self) -> float:
        return min(self.waited_s / self.reader_s, 1.0) if self.reader_s > 0 else 0.0
