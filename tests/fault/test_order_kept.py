"""A deterministic order is the same whoever reads, and whoever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.ops.test_service import distributed, service
from tests.support import numbered
from tests.support.daemons import cache_dir_fixture
from tests.support.op_source import drop_iterators
from tfquiver import CutPolicy

FILES, RECORDS, RECORD_BYTES = 4, 500, 2000
TOTAL = FILES * RECORDS
CUT = CutPolicy(10_000, 20_000, 40_000)
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)
cache_dir = cache_dir_fixture()


def daemon_of(cache_dir: Path) -> int:
    return int(json.loads((cache_dir / "node.json").read_text())["pid"])


def source(paths: list[Path], cache_dir: Path) -> tf.data.Dataset:
    return tfquiver.dataset(
        paths,
        cache_dir=cache_dir,
        first_use=tfquiver.FirstUse(cut=CUT),
        order=tfquiver.Deterministic(3, shuffle_bytes=150_000, with_position=True),
        reading=tfquiver.Reading(readahead_bytes=100_000, hold_back=0),
    )


def pairs(dataset: tf.data.Dataset) -> list[tuple[int, int]]:
    found = [(int(p), int(numbered.numbers([record])[0])) for p, record in dataset.as_numpy_iterator()]
    drop_iterators()
    return found


@pytest.mark.long
def test_four_readers_merged_by_position_are_what_one_reader_sees(paths: list[Path], cache_dir: Path) -> None:
    alone = pairs(source(paths, cache_dir))
    with service(4) as target:
        shared = pairs(distributed(target, source(paths, cache_dir)))
    assert shared != alone
    assert sorted(shared) == alone
    assert [position for position, _ in alone] == list(range(TOTAL))


def test_a_kill_of_coordinator_and_node_in_an_epoch_does_not_change_the_order(
    paths: list[Path], cache_dir: Path
) -> None:
    whole = pairs(source(paths, cache_dir))
    read = source(paths, cache_dir)
    found: list[tuple[int, int]] = []
    for position, record in read.as_numpy_iterator():
        found.append((int(position), int(numbered.numbers([record])[0])))
        if len(found) in (300, 1200):
            os.kill(daemon_of(cache_dir), signal.SIGKILL)
    drop_iterators()
    assert found == whole
    numbered.assert_each_once(np.array([number for _, number in found]), TOTAL)


def test_a_kill_of_coordinator_and_node_does_not_change_the_order_of_the_files(
    paths: list[Path], cache_dir: Path
) -> None:
    read = tfquiver.dataset(
        paths,
        cache_dir=cache_dir,
        first_use=tfquiver.FirstUse(cut=CUT),
        order="files",
        reading=tfquiver.Reading(readahead_bytes=100_000, hold_back=0),
    )
    found = []
    for record in read.as_numpy_iterator():
        found.append(int(numbered.numbers([record])[0]))
        if len(found) in (300, 1200):
            os.kill(daemon_of(cache_dir), signal.SIGKILL)
    drop_iterators()
    assert found == list(range(TOTAL))


def test_a_kill_of_coordinator_and_node_does_not_change_a_replay(
    paths: list[Path], cache_dir: Path, tmp_path: Path
) -> None:
    def read(order: tfquiver.Shuffled | tfquiver.Replay) -> tf.data.Dataset:
        return tfquiver.dataset(
            paths,
            cache_dir=cache_dir,
            first_use=tfquiver.FirstUse(cut=CUT),
            order=order,
            reading=tfquiver.Reading(readahead_bytes=100_000, hold_back=0),
        )

    served = list(read(tfquiver.Shuffled(shuffle_bytes=150_000, log_dir=tmp_path / "log")).as_numpy_iterator())
    drop_iterators()
    replayed = []
    for record in read(tfquiver.Replay(tmp_path / "log", shuffle_bytes=150_000)).as_numpy_iterator():
        replayed.append(record)
        if len(replayed) == 700:
            os.kill(daemon_of(cache_dir), signal.SIGKILL)
    drop_iterators()
    assert replayed == served
