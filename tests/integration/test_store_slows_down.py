"""A store whose rate is cut while a job reads: everybody can see it. Nobody sets a flag.

That the job is measured again, and what follows: contract/test_slower_store.py, and bench/probing_slower.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfquiver
from tests.support import numbered
from tests.support.cluster import wait_until
from tests.support.daemons import end_daemons
from tfquiver import CutPolicy
from tfquiver.cli.main import main
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.testing.emulated_store import EmulatedStore

pytestmark = pytest.mark.long

BATCH, RECORD_BYTES, RECORDS_A_FILE = 32, 2048, 25_000
FAST, SLOW = 600_000, 60_000
READS = 200_000  # bytes/s, when it does not wait


class Job(threading.Thread):
    """Reads a data set, as slowly as that, until it is told to stop."""

    def __init__(self, data: Any) -> None:
        super().__init__(daemon=True)
        self._data, self._step_s = data, BATCH * (RECORD_BYTES + 16) / READS
        self.enough = threading.Event()

    def run(self) -> None:
        due = time.monotonic()
        while not self.enough.is_set():
            for _ in self._data:
                due = max(due + self._step_s, time.monotonic() - self._step_s)
                if self.enough.wait(max(due - time.monotonic(), 0.0)):
                    return


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedStore]:
    with EmulatedStore.start() as running:
        running.make_bucket("bucket")
        for path in numbered.write(tmp_path / "data", 2, RECORDS_A_FILE, RECORD_BYTES):
            running.put("bucket", f"data/{path.name}", path.read_bytes())
            path.unlink()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", running.url)
        yield running
        endpoints.close_all()
        end_daemons(tmp_path / "cache")


def test_it_is_measured_and_told(store: EmulatedStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache_dir = tmp_path / "cache"
    data = tfquiver.dataset(
        "gs://bucket/data/*",
        cache_dir=cache_dir,
        first_use=tfquiver.FirstUse(cut=CutPolicy(16_000, 24_000, 32_000)),
        batch_size=BATCH,
        reading=tfquiver.Reading(readahead_bytes=64_000, hold_back=1),
        order=tfquiver.Shuffled(shuffle_bytes=64_000),
    )

    def told() -> dict[str, Any]:
        found: dict[str, Any] = status.collect(str(cache_dir))["store"]
        return found

    # Its epoch outlasts this test: what is kept, or was read before, would not be read from the store.
    assert main(["dataset", "set-cache", "data", "none", "--service", str(cache_dir)]) == 0
    store.change_rate(FAST)
    job = Job(data)
    job.start()
    try:
        wait_until(lambda: told()["s_per_byte"] > 0, "the store is measured", 120.0, every_s=1.0)
        before = told()
        assert 0 < before["bytes_per_s"] < 2 * READS
        assert before["limit_bytes_per_s"] == 0
        assert before["request_s_per_byte"] >= before["s_per_byte"] > 0.5 / FAST
        store.change_rate(SLOW)
        slower = 2.5 * before["s_per_byte"]
        wait_until(lambda: told()["s_per_byte"] > slower, "that it is slower is seen", 120.0, every_s=1.0)
        capsys.readouterr()
        assert main(["status", str(cache_dir)]) == 0
        assert " were read from it over the last ten seconds" in capsys.readouterr().out
    finally:
        job.enough.set()
        job.join()
