"""A store whose rate is cut while jobs read: everybody can see it, and a job is measured again. Nobody sets a flag."""

from __future__ import annotations

import json
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
from tfquiver.cli import status
from tfquiver.cli.main import main
from tfquiver.daemon import endpoints
from tfquiver.testing.emulated_store import EmulatedStore

BATCH = 32
# Of records so small a probe's hundred mini-batches are less than 2 % of the epoch. The other's epoch outlasts this
# test: what it has read it would find in its node's memory.
RECORD_BYTES = {"probed": 128, "steady": 2048}
RECORDS_A_FILE = {"probed": 320_000, "steady": 25_000}
FAST, SLOW = 600_000, 60_000
READS = {"probed": 30_000, "steady": 200_000}  # bytes/s, when they do not wait


class Job(threading.Thread):
    """Reads a data set, as slowly as that, until it is told to stop."""

    def __init__(self, name: str, data: Any, bytes_per_s: float) -> None:
        super().__init__(name=name, daemon=True)
        self._data, self._step_s = data, BATCH * (RECORD_BYTES[name] + 16) / bytes_per_s
        self.enough, self.steps = threading.Event(), 0

    def run(self) -> None:
        due = time.monotonic()
        while not self.enough.is_set():
            for _ in self._data:
                self.steps += 1
                due = max(due + self._step_s, time.monotonic() - self._step_s)
                if self.enough.wait(max(due - time.monotonic(), 0.0)):
                    return


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedStore]:
    with EmulatedStore.start() as running:
        running.make_bucket("bucket")
        for name, record_bytes in RECORD_BYTES.items():
            for path in numbered.write(tmp_path / name, 2, RECORDS_A_FILE[name], record_bytes):
                running.put("bucket", f"{name}/{path.name}", path.read_bytes())
                path.unlink()
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", running.url)
        yield running
        endpoints.close_all()
        end_daemons(tmp_path / "cache")


def dataset(cache_dir: Path, name: str) -> Any:
    return tfquiver.dataset(
        f"gs://bucket/{name}/*",
        cache_dir=cache_dir,
        first_use=tfquiver.FirstUse(cut=CutPolicy(16_000, 24_000, 32_000)),
        batch_size=BATCH,
        reading=tfquiver.Reading(readahead_bytes=64_000, hold_back=1),
        order=tfquiver.Shuffled(shuffle_bytes=64_000),
        job=name,
    )


@pytest.mark.alone
def test_it_is_seen_and_the_job_is_probed_again(
    store: EmulatedStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache_dir = tmp_path / "cache"

    def told() -> dict[str, Any]:
        found: dict[str, Any] = status.collect(str(cache_dir))["store"]
        return found

    def explained() -> dict[str, Any]:
        capsys.readouterr()
        assert main(["explain", "probed", "--service", str(cache_dir), "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    def probe() -> dict[str, Any]:
        found: dict[str, Any] = explained()["probes"].get("probed", {})
        return found

    def missed_on_purpose() -> int:
        found: int = status.collect(str(cache_dir))["nodes"][0]["bypasses"]
        return found

    jobs = [Job(name, dataset(cache_dir, name), rate) for name, rate in READS.items()]
    assert main(["dataset", "set-cache", "gs://bucket/steady/*", "none", "--service", str(cache_dir)]) == 0
    store.change_rate(FAST)
    for job in jobs:
        job.start()
    try:
        wait_until(lambda: told()["s_per_byte"] > 0, "the store is measured", 90.0, every_s=1.0)
        wait_until(lambda: "benefit" in probe(), "the job is measured", 180.0, every_s=1.0)
        before, bypasses = told(), missed_on_purpose()
        assert before["bytes_per_s"] == pytest.approx(READS["steady"], rel=0.5)
        assert before["limit_bytes_per_s"] == 0
        assert before["request_s_per_byte"] >= before["s_per_byte"] == pytest.approx(1 / FAST, rel=0.5)
        assert bypasses > 0
        assert probe()["benefit"]["value"] < 1.2, "it does not wait for such a store"
        store.change_rate(SLOW)
        slower = 2.5 * before["s_per_byte"]
        wait_until(lambda: told()["s_per_byte"] > slower, "that it is slower is seen", 90.0, every_s=1.0)
        assert explained()["store"]["s_per_byte"] > slower
        wait_until(lambda: missed_on_purpose() > bypasses, "it is probed again", 90.0, every_s=1.0)
        assert main(["status", str(cache_dir)]) == 0
        assert "store: gives" in capsys.readouterr().out
    finally:
        for job in jobs:
            job.enough.set()
        for job in jobs:
            job.join(60)
