"""TFRecord streams and stores for tests."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import google_crc32c

from tfquiver import errors
from tfquiver.scanning import tfrecord
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.scanning.file_cut import CutShard, cut_blocks
from tfquiver.stores import ObjectInfo

SMALL_SHARDS = CutPolicy(200, 1000, 5000)


def stream(payloads: Iterable[bytes]) -> bytes:
    return b"".join(map(tfrecord.frame, payloads))


def length_header(length: int) -> bytes:
    """A record header whose length CRC is right, whatever the length claims."""
    field = struct.pack("<Q", length)
    return field + struct.pack("<I", tfrecord.masked(google_crc32c.value(field)))


def cut(data: bytes, policy: CutPolicy = SMALL_SHARDS, chunk_bytes: int = 1 << 20) -> list[CutShard]:
    chunks = (data[start : start + chunk_bytes] for start in range(0, len(data), chunk_bytes))
    return list(cut_blocks(tfrecord.scan(chunks, name="x"), policy, 0, True))


class MemoryStore:
    """Objects in a dict: a store without sockets for the unit kind. `reads` says what was read."""

    remote = False

    def __init__(self, objects: dict[str, bytes] | None = None) -> None:
        self.objects = objects or {}
        self.generations: dict[str, str] = {}
        self.reads: list[tuple[str, int, int]] = []

    def list(self, pattern: str) -> list[ObjectInfo]:
        return [self.stat(uri) for uri in sorted(self.objects) if uri == pattern or pattern == "mem://*"]

    def stat(self, uri: str) -> ObjectInfo:
        if uri not in self.objects:
            raise errors.NotFoundError(f"{uri}: no such object")
        return ObjectInfo(uri, len(self.objects[uri]), self.generations.get(uri, "1"))

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        if uri not in self.objects or (generation and self.stat(uri).generation != generation):
            raise errors.StaleDigestError(f"{uri}: changed")
        self.reads.append((uri, offset, length))
        return self.objects[uri][offset : offset + length]

    def close(self) -> None:
        pass
