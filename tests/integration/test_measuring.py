"""What a job reads and how long it waits is known without its doing: in the trainer, in workers, under exactly_once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered
from tests.support.cluster import Cluster
from tfquiver import CutPolicy
from tfquiver.cli.status_asked_watched_explained import status

RECORD_BYTES, BATCH_RECORDS = 8192, 8
FRAMED_BYTES = (RECORD_BYTES + 16) * BATCH_RECORDS
STEP_S = 0.05
SECONDS = 25.0  # the buffers in between fill, then a window of ten
WINDOW_S = 10.0

paths = numbered.fixture(files=4, records_a_file=2000, record_bytes=RECORD_BYTES)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


def in_the_trainer(cluster: Cluster) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    return lambda source: source


def in_workers(cluster: Cluster) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    return tfquiver.distribute(cluster.dispatcher.address, max_outstanding_requests=4)  # type: ignore[union-attr]


def exactly_once(cluster: Cluster) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    return tfquiver.distribute(
        cluster.dispatcher.address,  # type: ignore[union-attr]
        guarantee="exactly_once", max_outstanding_requests=4,
    )  # fmt: skip


def of_job(cluster: Cluster, job: str) -> dict[str, Any]:
    told = status.collect(cluster.coordinator.address)["sessions"]
    measured = [info for info in told if info["job"] == job and "bytes_per_s" in info]
    assert measured, f"nothing is measured of {job}: {told}"
    info: dict[str, Any] = measured[0]
    return info


WAYS = (in_the_trainer, in_workers, exactly_once)


@pytest.mark.alone
@pytest.mark.long
def test_jobs_that_compute_are_seen_to_compute(cluster: Cluster, paths: list[Path]) -> None:
    """Three at once: each computes for nearly all of its time, so none is in the others' way."""
    with ThreadPoolExecutor(len(WAYS)) as trainers:
        for seen in trainers.map(lambda way: _train(cluster, paths, way), WAYS):
            info = seen.info
            assert info["bytes_per_s"] == pytest.approx(seen.true_bytes_per_s, rel=0.25), info["job"]
            assert info["stall_share"] < 0.3, info["job"]
            assert info["hit_share"] == 1.0, "the scan has kept it"


@dataclass(frozen=True)
class Seen:
    info: dict[str, Any]  # as `status` has it
    true_bytes_per_s: float


def _train(
    cluster: Cluster, paths: list[Path], way: Callable[[Cluster], Callable[[tf.data.Dataset], tf.data.Dataset]]
) -> Seen:
    source = tfquiver.dataset(
        paths,
        service=cluster.coordinator.address,
        cache_dir=cluster.cache_dir,
        first_use=tfquiver.FirstUse(cut=CutPolicy(50_000, 100_000, 200_000)),
        batch_size=BATCH_RECORDS,
        reading=tfquiver.Reading(readahead_bytes=500_000),
        order=tfquiver.Shuffled(shuffle_bytes=500_000),
        job=way.__name__,
    )
    data = source.repeat().apply(way(cluster)) if way is in_the_trainer else source.apply(way(cluster)).repeat()
    began, taken = time.monotonic(), list[float]()
    iterator = iter(data)  # kept: of a reader that has left nothing is told
    for _ in iterator:
        taken.append(time.monotonic())
        if taken[-1] - began > SECONDS:
            break
        time.sleep(STEP_S)
    true_bytes_per_s = sum(at > taken[-1] - WINDOW_S for at in taken) * FRAMED_BYTES / WINDOW_S
    return Seen(of_job(cluster, way.__name__), true_bytes_per_s)
