"""What a mount's reads come through is away in the middle of them: the store hangs, the coordinator is gone."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import numbered, warm
from tests.support.cluster import Cluster, wait_until
from tests.support.mounted import ENDS_S, Mounted, command, forget_pages, mounted, sums
from tests.support.privileges import needs_fuse, needs_mounts
from tfquiver.testing.emulated_store import EmulatedStore

FILES, FILE_BYTES = 3, 6 << 20
PATIENCE_S = 5.0


def sha256sum(mount: Mounted) -> str:
    return subprocess.run(
        f"cd {mount.point} && find . -type f | sort | xargs sha256sum", shell=True, check=True, capture_output=True,
        text=True, timeout=120,
    ).stdout  # fmt: skip


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedStore]:
    pytest.importorskip("gcp_storage_emulator", reason="pip install '.[demo]'")
    with EmulatedStore.start(keeps=True) as started:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", started.url)
        started.make_bucket("data")
        for number in range(FILES):
            started.put("data", f"{number}", random.Random(number).randbytes(FILE_BYTES))
        yield started


@needs_fuse
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_store_that_hangs_in_the_middle_of_a_cold_read(
    tmp_path: Path, store: EmulatedStore, comes_back: bool
) -> None:
    """It takes connections and answers nothing: reads of what is cached go on, the others wait, and are EIO when it
    stays so; afterwards all is as it was."""
    cache_dir, patience_s = tmp_path / "cache", 60.0 if comes_back else PATIENCE_S
    with mounted(tmp_path / "mnt", cache_dir, ["gs://data/*"]):
        pass
    warm.run(command("clear", cache_dir), check=True, capture_output=True)
    with (
        mounted(tmp_path / "mnt", cache_dir, ["gs://data/*"], f"--patience_s={patience_s:g}",
                "--read_ahead=0") as mount,
        ThreadPoolExecutor(1) as thread,
    ):  # fmt: skip
        cached = (mount.point / "0").read_bytes()
        assert cached == random.Random(0).randbytes(FILE_BYTES)
        store.change_rate(float(1 << 20))
        reading = thread.submit((mount.point / "1").read_bytes)
        before = store.traffic().payload_bytes
        wait_until(lambda: store.traffic().payload_bytes > before, "it is in the middle of it")
        os.kill(store.process.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            assert sorted(path.name for path in mount.point.iterdir()) == ["0", "1", "2"]
            assert (mount.point / "0").read_bytes() == cached
            assert time.monotonic() - began < PATIENCE_S
            assert not reading.done()
            if not comes_back:
                with pytest.raises(OSError, match="Input/output error"):
                    reading.result(patience_s + ENDS_S)
                mount.logged("gs://data/1: EIO")
        finally:
            os.kill(store.process.pid, signal.SIGCONT)
            store.change_rate(0)
        if comes_back:
            assert reading.result(2 * ENDS_S) == random.Random(1).randbytes(FILE_BYTES)
        wait_until(lambda: can_be_read(mount.point / "2"), "it is read again")
        for number in range(FILES):
            assert (mount.point / f"{number}").read_bytes() == random.Random(number).randbytes(FILE_BYTES)


def can_be_read(path: Path) -> bool:
    try:
        return bool(path.read_bytes())
    except OSError:
        return False


@needs_fuse
@needs_mounts
def test_the_coordinator_alone_is_gone(tmp_path: Path) -> None:
    """Its nodes have what a mount needs: four readers read all of it at once, cached and not."""
    numbered.write(tmp_path / "data", 4, 3000, 1000)
    expected = sums(tmp_path / "data")
    with Cluster(tmp_path / "cluster", workers=0) as cluster:
        service = f"--service={cluster.coordinator.address}"
        with (
            mounted(tmp_path / "mnt", cluster.cache_dir, [f"{tmp_path}/data/*"], service, own_daemon=False) as mount,
            ThreadPoolExecutor(4) as readers,
        ):
            cluster.coordinator.kill()
            told = {one.result(120) for one in [readers.submit(sha256sum, mount) for _ in range(4)]}
            assert len(told) == 1
            assert sums(mount.point) == expected
            for path in (cluster.cache_dir / "objects").rglob("*"):
                if path.is_file():
                    path.unlink()
            forget_pages()
            assert {one.result(120) for one in [readers.submit(sha256sum, mount) for _ in range(4)]} == told
