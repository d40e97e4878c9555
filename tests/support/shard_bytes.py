"""Shards written by hand, as TFRecord files of their own and as sealed memory: for the node that tests script."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import google_crc32c


def masked_crc(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return length + struct.pack("<I", masked_crc(length)) + record + struct.pack("<I", masked_crc(record))


@dataclass(frozen=True)
class ShardBytes:
    path: Path
    offset: int
    length_bytes: int
    crc32c: int
    records: int


def write_shards(path: Path, shards: Sequence[Sequence[bytes]]) -> list[ShardBytes]:
    """Writes one TFRecord file; every inner sequence of records is one shard."""
    written = []
    with path.open("wb") as out:
        for records in shards:
            data = b"".join(map(framed, records))
            written.append(ShardBytes(path, out.tell(), len(data), google_crc32c.value(data), len(records)))
            out.write(data)
    return written


def sealed_copy(shard: ShardBytes) -> int:
    """Sealed memory with the shard's bytes, as the node makes from compressed entries."""
    fd = os.memfd_create("shard", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with shard.path.open("rb") as file:
        file.seek(shard.offset)
        os.write(fd, file.read(shard.length_bytes))
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd
