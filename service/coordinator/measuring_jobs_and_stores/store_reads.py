"""A node's cumulative counters of its reads of the object store, and what cannot be one. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb2

MOST_BYTES_PER_S = 1e12  # of one node: more than a machine's memory gives
MOST_READS_PER_S, MOST_AT_ONCE = 1e6, 4096
_ROUNDING_S = 1e-3


@dataclass(frozen=True, slots=True)
class StoreReads:
    """As in pb2.StoreReads, in seconds: of one node since its process was started."""

    reads: int = 0
    size_bytes: int = 0
    busy_s: float = 0.0
    request_s: float = 0.0
    elapsed_s: float = 0.0
    all_bytes: int = 0

    @classmethod
    def told(cls, told: pb2.StoreReads) -> StoreReads:
        times_s = (told.busy_us / 1e6, told.request_us / 1e6, told.elapsed_us / 1e6)
        return cls(told.reads, told.bytes, *times_s, told.all_bytes if told.HasField("all_bytes") else told.bytes)

    def since(self, before: StoreReads) -> StoreReads:
        return StoreReads(
            self.reads - before.reads,
            self.size_bytes - before.size_bytes,
            self.busy_s - before.busy_s,
            self.request_s - before.request_s,
            self.elapsed_s - before.elapsed_s,
            self.all_bytes - before.all_bytes,
        )

    def plus(self, more: StoreReads) -> StoreReads:
        return self.since(StoreReads().since(more))

    @property
    def can_be(self) -> bool:
        """Of a difference: whether nothing fell, and all of it can have been done in its time."""
        most_s = self.elapsed_s + _ROUNDING_S
        return (
            0 <= self.reads <= MOST_READS_PER_S * most_s
            and 0 <= self.size_bytes <= MOST_BYTES_PER_S * most_s
            and 0 <= self.all_bytes <= MOST_BYTES_PER_S * most_s
            and self.elapsed_s >= 0.0
            and 0.0 <= self.busy_s <= most_s
            and self.busy_s - _ROUNDING_S <= self.request_s <= MOST_AT_ONCE * (self.busy_s + _ROUNDING_S)
        )
