"""A store that does not answer is a problem of `tfquiver status` while a job waits for it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tfquiver
from tests.support import numbered
from tests.support.cluster import Cluster, wait_until
from tests.support.gcs_emulator import gcs_emulator
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.stores.gcs import GcsStore


def slow(cluster: Cluster) -> list[str]:
    return [one for one in tfquiver.status(cluster.coordinator.address)["problems"] if "object store" in one]


@pytest.mark.long
@pytest.mark.timeout(200)
def test_who_waits_for_a_store_that_hangs_is_told_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, enough = threading.Event(), threading.Event()
    with gcs_emulator() as emulator, ThreadPoolExecutor(1) as pool:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator.address)
        store = GcsStore({"endpoint": emulator.address})
        for path in numbered.write(tmp_path / "data", files=4, records_a_file=500, record_bytes=2048):
            store._client.bucket("bucket").blob(f"data/{path.name}").upload_from_filename(path)
        store.close()
        with Cluster(tmp_path / "cluster", workers=0, flags={"node": ["--quota=0"]}) as cluster:
            data = tfquiver.dataset(
                "gs://bucket/data/*", service=cluster.coordinator.address, cache_dir=cluster.cache_dir, batch_size=10,
                job="held up",
            )  # fmt: skip

            def train() -> None:
                for _ in data.repeat():
                    if enough.wait(0.01):
                        return

            training = pool.submit(train)
            try:
                wait_until(lambda: bool(tfquiver.status(cluster.coordinator.address)["sessions"]), "it reads", 60)
                assert slow(cluster) == []
                emulator.weather = lambda: lambda _handler: answers.wait(100) and False
                wait_until(lambda: bool(slow(cluster)), "it is told", 90)
                assert "1 job waits while the object store is slow or hangs: held up (" in slow(cluster)[0]
                answers.set()
                wait_until(lambda: slow(cluster) == [], "it is over", 60)
            finally:
                answers.set()
                enough.set()
                training.result(60)
                endpoints.close_all()
