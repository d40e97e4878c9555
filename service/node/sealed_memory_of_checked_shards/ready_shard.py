"""A shard that can be handed to a reader: a descriptor, and where in it the raw bytes are."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tfquiver.service.node.sealed_memory_of_checked_shards import sealed_memory

FILE = 0
SEALED_MEMORY = 1


@dataclass(frozen=True, slots=True)
class ReadyShard:
    """`fd` belongs to whoever has this object, who closes it once. `crc32c` is the plain CRC-32C of the raw bytes.

    `source` says where it came from: "hot", "disk", "peer" or "store"; `peer_had_none`: a peer that has read it from
    the store to answer.
    """

    kind: int
    fd: int
    offset: int
    length_bytes: int
    crc32c: int
    source: str
    peer_had_none: bool = False

    @property
    def left_the_store(self) -> bool:
        """For whoever asked for it: it was in no cache."""
        return self.source == "store" or self.peer_had_none

    @classmethod
    def from_bytes(cls, raw: bytes, crc32c: int, source: str) -> ReadyShard:
        return cls(SEALED_MEMORY, sealed_memory.sealed(raw), 0, len(raw), crc32c, source)

    def share(self, source: str = "") -> ReadyShard:
        """Another one of the same bytes, with its own descriptor. Raises NoMemoryError."""
        fd, had_none = sealed_memory.again(self.fd), self.peer_had_none and not source
        return ReadyShard(self.kind, fd, self.offset, self.length_bytes, self.crc32c, source or self.source, had_none)

    def close(self) -> None:
        os.close(self.fd)
