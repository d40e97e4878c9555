"""Writes small.tfrecord, small.tfrecord.gz, small.tfqd, the digest of both, and bytes.tfqd, of both as bytes.

Run it (python -m tests.golden.make_digest) only when the format gets a new version; then keep the old files too.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from tests.support.records import SMALL_SHARDS, MemoryStore, stream
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.listing import listing
from tfquiver.scanning import digest_build
from tfquiver.scanning.cutting import CutPolicy

HERE = Path(__file__).parent


def payloads() -> list[bytes]:
    """Records of 0 to 127 bytes that no library's random numbers decide about."""
    return [(hashlib.sha512(str(i).encode()).digest() * 2)[: i * 37 % 128] for i in range(120)]


def digest_of_files(policy: CutPolicy = SMALL_SHARDS, name: str = "small") -> Digest:
    objects = {f"mem://{name}": (HERE / name).read_bytes() for name in ("small.tfrecord", "small.tfrecord.gz")}
    store = MemoryStore(objects)
    files = listing.expand("mem://*", lambda _: store)
    return digest_build.build(files, policy, name=name, store_for=lambda _: store)


SMALL_BYTES = CutPolicy(256, 1024, 4096, formats.BYTES)

if __name__ == "__main__":
    data = stream(payloads())
    (HERE / "small.tfrecord").write_bytes(data)
    (HERE / "small.tfrecord.gz").write_bytes(gzip.compress(data, mtime=0))
    digest_of_files().save(HERE / "small.tfqd")
    digest_of_files(SMALL_BYTES, "bytes").save(HERE / "bytes.tfqd")
