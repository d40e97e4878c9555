"""A process that inserts shards into a store until it is killed; prints the hash of each that stands."""

from __future__ import annotations

import hashlib
import random
import sys
from pathlib import Path

from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard

if __name__ == "__main__":
    root, seed = Path(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(seed)
    store = DiskCache(root, 1 << 30)
    while True:
        raw = rng.randbytes(rng.randrange(1, 300_000)) if rng.random() < 0.5 else b"text" * rng.randrange(1, 200_000)
        shard = VerifiedShard.check(hashlib.sha256(raw).digest(), raw, "test")
        store.insert(shard)
        print(shard.hash.hex(), flush=True)
