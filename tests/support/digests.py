"""Small digests made of nothing, for tests of those who only look at shards."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry


def digest_of(hashes: Sequence[bytes], name: str = "test", shard_bytes: int = 100) -> Digest:
    """One file; a shard of one record for each hash."""
    count = len(hashes)
    return Digest.build(
        name,
        [FileEntry(f"file:///{name}", count * shard_bytes, "1", "none")],
        np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, 32),
        np.zeros(count),
        np.arange(count) * shard_bytes,
        np.full(count, shard_bytes),
        np.ones(count),
    )


def numbered_digest(shards: int, name: str = "test") -> Digest:
    return digest_of([hashlib.sha256(f"{name} {shard}".encode()).digest() for shard in range(shards)], name)
