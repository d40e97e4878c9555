"""What it costs to keep a shard: the store's insert against a plain write of the same bytes, and the share of fsync.

python -m tests.bench.store_insert [--quick]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import zstandard

from tests.bench.bars import Bar, finish, run_bench
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.sealed_memory_of_checked_shards.verified import VerifiedShard

SHARD_BYTES = 2 << 20
BAR = 0.35  # of the rate of hashing, writing and syncing the same bytes one after the other
ROUNDS = 5


def timed(work: Callable[[bytes], object], shards: list[bytes]) -> float:
    start = time.perf_counter()
    for raw in shards:
        work(raw)
    return time.perf_counter() - start


def checked(raw: bytes) -> VerifiedShard:
    return VerifiedShard.check(hashlib.sha256(raw).digest(), raw, "bench")


def write_plainly(directory: Path, raw: bytes) -> None:
    """The parts that no store of checked entries can do without."""
    path = directory / hashlib.sha256(raw).hexdigest()
    with path.open("wb", buffering=0) as file:
        file.write(raw)
        os.fsync(file.fileno())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, under a minute")
    parser.add_argument("--dir", help="where to write; default: the temporary directory")
    arguments = parser.parse_args()
    count = 16 if arguments.quick else 128
    rng = random.Random(5)
    ours, plain, unsynced, zstd_ours, zstd_alone = [], [], [], [], []
    with tempfile.TemporaryDirectory(prefix="store-insert-", dir=arguments.dir) as base:
        store = DiskCache(Path(base) / "cache", 1 << 40)
        plain_directory = Path(base) / "plain"
        plain_directory.mkdir()

        compressor = zstandard.ZstdCompressor(level=1)

        def insert(raw: bytes) -> None:
            store.insert(checked(raw))

        for _ in range(ROUNDS + 1):
            noise = [rng.randbytes(SHARD_BYTES) for _ in range(count)]
            words = [rng.randbytes(6).hex().encode() for _ in range(2000)]
            text = [b" ".join(rng.choices(words, k=SHARD_BYTES // 13)) for _ in range(count // 4)]
            plain.append(timed(lambda raw: write_plainly(plain_directory, raw), noise))
            ours.append(timed(insert, noise))
            zstd_alone.append(timed(compressor.compress, text))
            zstd_ours.append(timed(insert, text))
            noise = [rng.randbytes(SHARD_BYTES) for _ in range(count)]
            with mock.patch("os.fsync", lambda fd: None):
                unsynced.append(timed(insert, noise))
            for hash in store.hashes():
                store.delete(hash)
            for path in plain_directory.iterdir():
                path.unlink()
    ms = {
        name: round(statistics.median(times[1:]) / shards * 1000, 3)
        for name, times, shards in (
            ("insert", ours, count),
            ("insert_without_fsync", unsynced, count),
            ("hash_write_fsync", plain, count),
            ("insert_zstd", zstd_ours, count // 4),
            ("zstd_alone", zstd_alone, count // 4),
        )
    }
    figures = {f"{name}_ms": value for name, value in ms.items()}
    finish(
        "store_insert", figures, [Bar("plain / insert", ms["hash_write_fsync"] / ms["insert"], BAR)], arguments.quick
    )


if __name__ == "__main__":
    run_bench(main)
