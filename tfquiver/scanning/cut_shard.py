"""A shard as it comes out of a scan (pure)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CutShard:
    """`crc32c` is the plain CRC-32C of its raw bytes. `records`: 0 where files are cut as bytes."""

    hash: bytes
    offset: int
    length_bytes: int
    records: int
    crc32c: int
    data: bytes  # raw bytes; empty when they were not asked for
