"""kill -9 in the middle of a digest build: the next one goes on where it was."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.support import warm
from tests.support.gcs_emulator import GcsEmulator, gcs_emulator
from tests.support.records import stream
from tfquiver.digests.digest import Digest

CHUNKS = 5  # of 4 MiB a file
RECORD = bytes(1008)  # 1 KiB framed: a chunk is 4096 of them, and so many are written down at a time


def build(emulator: GcsEmulator, output: Path, workers: int) -> subprocess.Popen[bytes]:
    command = ["digest", "build", "gs://bucket/f-*", "-o", str(output), f"--workers={workers}"]
    sizes = ["--min_shard=1", "--target_shard=1", "--max_shard=1"]
    environment = os.environ | {"STORAGE_EMULATOR_HOST": emulator.address}
    return warm.Popen([sys.executable, "-m", "tfquiver.cli.main", *command, *sizes], env=environment)


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_builds_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    output = tmp_path / "f.tfqd"
    reached, released = threading.Event(), threading.Event()

    def hang(_: object) -> bool:
        reached.set()
        assert released.wait(60)
        return False

    with gcs_emulator() as emulator:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator.address)
        from google.cloud import storage

        client = storage.Client()
        for number in range(2):
            data = stream([bytes([number]) + RECORD[1:]] * 4096 * CHUNKS)
            client.bucket("bucket").blob(f"f-{number}").upload_from_string(data)
        client.close()
        # Two looks at the first bytes, then chunks; the hanging one is well inside.
        emulator.faults += [lambda _: False] * 6 + [hang]
        process = build(emulator, output, workers)
        try:
            assert reached.wait(60)
            scanners = psutil.Process(process.pid).children(recursive=True)
            assert len(scanners) >= (2 if workers == 2 else 0)
        finally:
            process.kill()
            process.wait(30)
            released.set()
        _, alive = psutil.wait_procs(scanners, timeout=30)
        assert alive == []
        assert not output.exists()

        emulator.faults.clear()
        emulator.downloads.clear()
        assert build(emulator, output, workers).wait(90) == 0
        again = [asked for asked in emulator.downloads if not asked.endswith("bytes=0-11")]
        assert 0 < len(again) < 2 * CHUNKS
        assert sorted(path.name for path in tmp_path.iterdir()) == ["f.tfqd"]

        fresh = tmp_path / "fresh.tfqd"
        assert build(emulator, fresh, 1).wait(90) == 0
    one, other = Digest.open(output), Digest.open(fresh)
    assert one.num_records == 2 * 4096 * CHUNKS
    assert (one.content_root, one.digest_id) == (other.content_root, other.digest_id)
