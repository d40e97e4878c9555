"""kill -9 of a trainer in mid-epoch, behind a dispatcher and two workers: another one finishes the epoch."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.fault.test_service_killed import (
    BATCH,
    CUT,
    HOLD_BACK,
    POOL,
    READAHEAD,
    RECORD_BYTES,
    UNACKED_RECORDS,
    sessions,
)
from tests.support import numbered, warm
from tests.support.cluster import Cluster, wait_until

FILES, RECORDS_A_FILE = 4, 2000
TOTAL = FILES * RECORDS_A_FILE
MOST_AGAIN = 2 * (UNACKED_RECORDS + HOLD_BACK * BATCH)
# What buffers behind the workers' sources hold: 16 elements that the client asks for, one a worker, one at hand.
assert HOLD_BACK >= 16

_TRAINER = """
import sys, time
from tests.fault.test_resume import data_set
from tests.support import numbered

seen, job, coordinator, dispatcher, *paths = sys.argv[1:]
with open(seen, "wb", buffering=0) as out:
    for batch in data_set(paths, job, coordinator, dispatcher).as_numpy_iterator():
        out.write(numbered.numbers(batch).tobytes())
        time.sleep(0.005)
"""


def data_set(paths: list[str], job: str, coordinator: str, dispatcher: str) -> tf.data.Dataset:
    read = tfquiver.dataset(
        paths,
        service=coordinator,
        job=job,
        resume=True,
        first_use=tfquiver.FirstUse(cut=CUT),
        batch_size=BATCH,
        reading=tfquiver.Reading(readahead_bytes=READAHEAD, hold_back=2 * HOLD_BACK),
        order=tfquiver.Shuffled(shuffle_bytes=POOL),
    )
    return read.apply(tfquiver.distribute(dispatcher, compression=None))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", workers=2) as running:
        yield running


@pytest.fixture
def arguments(cluster: Cluster, tmp_path: Path) -> dict[str, Any]:
    assert cluster.dispatcher is not None
    paths = numbered.write(tmp_path / "data", FILES, RECORDS_A_FILE, RECORD_BYTES)
    return {
        "paths": [str(path) for path in paths],
        "coordinator": cluster.coordinator.address,
        "dispatcher": cluster.dispatcher.address,
    }


def killed_trainer(arguments: dict[str, Any], job: str, seen: Path, at_batch: int) -> numbered.Numbers:
    """What a trainer of `job` had consumed when it was killed after `at_batch` batches."""
    command = [sys.executable, "-c", _TRAINER, str(seen), job, arguments["coordinator"], arguments["dispatcher"]]
    trainer = warm.Popen(command + arguments["paths"], warm_kind="tensorflow")
    try:
        wait_until(
            lambda: (seen.exists() and seen.stat().st_size >= at_batch * BATCH * 8) or trainer.poll() is not None,
            f"batch {at_batch}",
            60,
        )
        assert trainer.poll() is None
    finally:
        trainer.kill()
        trainer.wait()
    return np.frombuffer(seen.read_bytes(), np.int64)


def test_another_trainer_finishes_the_epoch(
    cluster: Cluster, arguments: dict[str, Any], tmp_path: Path, seed: int
) -> None:
    """Although dispatcher and coordinator are killed as well."""
    job = "killed"
    at_batch = random.Random(seed).randrange(MOST_AGAIN // BATCH + 1, TOTAL // BATCH - 100)
    before = killed_trainer(arguments, job, tmp_path / "seen", at_batch)
    assert cluster.dispatcher is not None
    cluster.dispatcher.kill()
    cluster.coordinator.kill()
    cluster.coordinator.restart()
    cluster.dispatcher.restart()
    data = data_set(job=job, **arguments)
    after = numbered.EpochReader(data).result()
    lost, duplicates = numbered.lost_and_duplicates(np.concatenate([before, after]), TOTAL)
    print(f"killed after {len(before)} of {TOTAL}, went on with {len(after)}: {lost} lost, {duplicates} duplicates")
    assert lost == 0
    assert duplicates <= MOST_AGAIN < len(before)
    of_job = [session for session in sessions(cluster) if session.job == job]
    assert [(s.epoch, s.ended, s.taken_over, s.shortfall) for s in of_job] == [(0, True, False, 0), (0, True, True, 0)]
    # The next epoch is a whole one.
    numbered.assert_each_once(numbered.EpochReader(data).result(), TOTAL)
    assert [s.epoch for s in sessions(cluster) if s.job == job] == [1, 0, 0]

    # A second client of a living job takes over, and the first is told.
    first = numbered.EpochReader(data_set(job="twice", **arguments), step_s=0.005)
    first.reached(TOTAL // 8)
    second = numbered.EpochReader(data_set(job="twice", **arguments))
    with pytest.raises(tf.errors.FailedPreconditionError, match="another client of job 'twice' goes on with epoch 0"):
        first.result()
    lost, _ = numbered.lost_and_duplicates(np.concatenate([first.seen(), second.result()]), TOTAL)
    assert lost == 0
