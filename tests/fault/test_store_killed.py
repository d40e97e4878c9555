"""kill -9 is the normal way to stop: nothing torn is ever served, and nothing that stood is lost."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from pathlib import Path

from tests.contract.test_disk_cache import disk_bytes, raw_of
from tfquiver.service.node.disk.disk_cache import DiskCache


def test_a_store_that_is_killed_while_it_inserts_comes_back_whole(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    stood: set[bytes] = set()
    for _ in range(4):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fault.inserting", str(tmp_path), str(rng.getrandbits(32))],
            stdout=subprocess.PIPE,
        )
        assert process.stdout
        for _ in range(rng.randrange(1, 40)):
            stood.add(bytes.fromhex(process.stdout.readline().decode()))
        process.kill()
        rest = process.stdout.read().splitlines()
        stood |= {bytes.fromhex(line.decode()) for line in rest if len(line) == 64}
        process.stdout.close()
        process.wait()

        store = DiskCache(tmp_path, 1 << 30)
        assert stood <= set(store.hashes())
        for hash in store.hashes():
            raw = raw_of(store, hash)
            assert raw is not None
            assert hashlib.sha256(raw).digest() == hash
        assert list((tmp_path / "tmp").iterdir()) == []
        assert store.used_bytes == disk_bytes(tmp_path)
        assert store.corrupt_entries == 0
