"""I-5 under load: entries that are corrupted, truncated or deleted while they are read are misses, never wrong data."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

import tfquiver
from tests.support import numbered
from tests.support.cluster import Cluster
from tfquiver import CutPolicy
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc

pytestmark = pytest.mark.long

FILES, RECORDS_A_FILE, RECORD_BYTES = 4, 2000, 1000
TOTAL = FILES * RECORDS_A_FILE
CUT = CutPolicy(10_000, 20_000, 40_000)


def corrupt(path: Path, choose: random.Random) -> None:
    with path.open("r+b") as file:
        at = choose.randrange(path.stat().st_size)
        byte = os.pread(file.fileno(), 1, at)
        os.pwrite(file.fileno(), bytes([byte[0] ^ 0x10]), at)


def truncate(path: Path, choose: random.Random) -> None:
    os.truncate(path, choose.randrange(path.stat().st_size))


def delete(path: Path, choose: random.Random) -> None:
    path.unlink()


@pytest.mark.parametrize("codec", ["raw", "zstd"])
@pytest.mark.parametrize("damage", [corrupt, truncate, delete])
def test_damage_under_load(
    tmp_path: Path, damage: Callable[[Path, random.Random], None], codec: str, seed: int
) -> None:
    paths = numbered.write(tmp_path / "data", FILES, RECORDS_A_FILE, RECORD_BYTES)
    flags = {"node": [f"--codec={codec}", "--hot=256KiB"]}
    with Cluster(tmp_path / "cluster", workers=0, flags=flags) as cluster:
        assert cluster.node is not None
        read = tfquiver.dataset(
            paths,
            service=cluster.coordinator.address,
            cache_dir=cluster.cache_dir,
            first_use=tfquiver.FirstUse(cut=CUT),
            batch_size=20,
            order=tfquiver.Shuffled(shuffle_bytes="200KB"),
            reading=tfquiver.Reading(readahead_bytes="100KB"),
        )
        numbered.assert_each_once(numbered.EpochReader(read).result(), TOTAL)
        choose = random.Random(seed)
        stop = threading.Event()
        damaged = 0

        def vandal() -> None:
            nonlocal damaged
            while not stop.wait(0.01):
                entries = [path for path in (cluster.cache_dir / "objects").rglob("*") if path.is_file()]
                for path in choose.sample(entries, min(5, len(entries))):
                    try:
                        damage(path, choose)
                    except (FileNotFoundError, ValueError):  # gone, or empty already
                        continue
                    damaged += 1

        vandals = threading.Thread(target=vandal)
        vandals.start()
        try:
            for _ in range(3):
                numbered.assert_each_once(numbered.EpochReader(read, step_s=0.002).result(), TOTAL)
        finally:
            stop.set()
            vandals.join()
        numbered.assert_each_once(numbered.EpochReader(read).result(), TOTAL)
        with grpc.insecure_channel(cluster.node.address) as channel:
            status = node_pb2_grpc.NodeStub(channel).Status(node_pb2.StatusRequest(), timeout=10)
        print(f"{damage.__name__} {codec}: {damaged} damaged, {status.corrupt_entries} found")
        assert damaged > 50
        assert damage is delete or status.corrupt_entries > 0
        endpoints.close_all()
