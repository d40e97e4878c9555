"""A shard's raw bytes whose hash has been checked: the only thing that can be inserted (I-3)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import google_crc32c

from tfquiver import errors
from tfquiver.scanning.file_cut import CutShard


@dataclass(frozen=True, slots=True)
class VerifiedShard:
    """Made by `check` or `from_cut` only. `crc32c` is the plain CRC-32C of `raw`."""

    hash: bytes
    raw: bytes
    crc32c: int

    @classmethod
    def check(cls, hash: bytes, raw: bytes, where: str) -> VerifiedShard:
        """Raises DataLossError naming `where` when `raw` does not have that SHA-256."""
        found = hashlib.sha256(raw).digest()
        if found != hash:
            raise errors.DataLossError(f"{where}: the bytes have hash {found.hex()}, not {hash.hex()}")
        return cls(hash, raw, google_crc32c.value(raw))

    @classmethod
    def from_cut(cls, shard: CutShard) -> VerifiedShard:
        """The cutter has just computed the hash from these very bytes."""
        return cls(shard.hash, shard.data, shard.crc32c)
