"""The order of records through a real node and coordinator: the same whatever is cached, and whoever reads."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered
from tests.support.daemons import end_daemons
from tests.support.op_source import drop_iterators
from tfquiver import CutPolicy
from tfquiver.node_daemon_and_notes_in_directories import daemon, endpoints

FILES, RECORDS, RECORD_BYTES = 4, 500, 2000
TOTAL = FILES * RECORDS
CUT = CutPolicy(20_000, 50_000, 100_000)
SMALL_SHARDS = tfquiver.FirstUse(cut=CUT)
POOL_BYTES = 600_000
AHEAD = tfquiver.Reading(readahead_bytes=200_000)
SHUFFLED = tfquiver.Shuffled(shuffle_bytes=POOL_BYTES)
Source = Callable[..., tf.data.Dataset]


class _NoOp:
    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None: ...


paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)


def _cache(cache_dir: Path) -> Iterator[Path]:
    endpoints.acquire(str(cache_dir), functools.partial(daemon.find_or_start, cache_dir, 1 << 30), _NoOp())
    yield cache_dir
    endpoints.close_all()
    end_daemons(cache_dir)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, paths: list[Path]) -> Iterator[Path]:
    """A cache that has all of the data."""
    for cache_dir in _cache(tmp_path_factory.mktemp("warm") / "cache"):
        for _ in tfquiver.dataset(paths, cache_dir=cache_dir, first_use=SMALL_SHARDS):
            pass
        drop_iterators()
        yield cache_dir


@pytest.fixture
def cold(tmp_path: Path) -> Iterator[Path]:
    yield from _cache(tmp_path / "cold")


@pytest.fixture
def read(paths: list[Path]) -> Source:
    def make(cache_dir: Path, order: Any = SHUFFLED, **arguments: Any) -> tf.data.Dataset:
        where = {"cache_dir": cache_dir, "first_use": SMALL_SHARDS, "reading": AHEAD}
        return tfquiver.dataset(paths, **where, order=order, **arguments)

    return make


def numbers(dataset: tf.data.Dataset) -> list[int]:
    found: list[int] = numbered.read(dataset).tolist()
    drop_iterators()
    return found


def pairs(elements: Iterator[tuple[Any, bytes]]) -> list[tuple[int, int]]:
    return [(int(position), int(numbered.numbers([record])[0])) for position, record in elements]


def test_a_replay_is_bit_for_bit_what_was_served_by_another_cache(
    read: Source, warm: Path, cold: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    first = read(cold, replace(SHUFFLED, log_dir=log))
    served = [numbers(first), numbers(first)]
    numbered.assert_each_once(np.array(served[0]), TOTAL)
    again = read(warm, tfquiver.Replay(log, shuffle_bytes=POOL_BYTES))
    assert [numbers(again), numbers(again)] == served
    assert served[0] != served[1] != numbers(read(warm))


def test_a_deterministic_order_is_that_of_its_seed(read: Source, warm: Path, cold: Path) -> None:
    order = tfquiver.Deterministic(0, shuffle_bytes=POOL_BYTES, with_position=True)
    of_warm, of_cold = read(warm, order), read(cold, order)
    epochs = [pairs(of_warm.as_numpy_iterator()) for _ in range(2)]
    assert [pairs(of_cold.as_numpy_iterator()) for _ in range(2)] == epochs
    for epoch in epochs:
        assert [position for position, _ in epoch] == list(range(TOTAL))
        numbered.assert_each_once(np.array([number for _, number in epoch]), TOTAL)
    assert epochs[0] != epochs[1]
    assert pairs(read(warm, replace(order, seed=1)).as_numpy_iterator()) != epochs[0]


def test_batches_come_from_one_stripe_unit_at_a_time(read: Source, warm: Path) -> None:
    found = np.array(numbers(read(warm, tfquiver.Shuffled(shuffle_bytes=100_000, homogeneous=True), batch_size=25)))
    numbered.assert_each_once(found, TOTAL)
    # 8 batches of 25 are the least that a unit has: 10 units, and so 200 records or so of the same stretch at a time.
    spreads = [np.ptp(found[at : at + 25]) for at in range(0, TOTAL, 25)]
    assert np.median(spreads) < 300
    shuffled = np.array(numbers(read(warm, batch_size=25)))
    assert np.median([np.ptp(shuffled[at : at + 25]) for at in range(0, TOTAL, 25)]) > 600


def test_a_deterministic_iterator_is_restored_in_its_order(read: Source, warm: Path, tmp_path: Path) -> None:
    def made() -> tf.data.Dataset:
        return read(warm, tfquiver.Deterministic(9, shuffle_bytes=POOL_BYTES, with_position=True))

    whole = pairs(made().as_numpy_iterator())
    iterator = iter(made())
    found = pairs((position, record.numpy()) for position, record in itertools.islice(iterator, 777))
    prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    restored = iter(made())
    tf.train.Checkpoint(iterator=restored).read(prefix).assert_consumed()
    found += pairs((position, record.numpy()) for position, record in restored)
    assert found == whole


@pytest.mark.long
@pytest.mark.parametrize("order", [SHUFFLED, replace(SHUFFLED, homogeneous=True)], ids=str)
def test_what_a_symbolic_checkpoint_has_settled_comes_again(
    read: Source, warm: Path, tmp_path: Path, order: tfquiver.Shuffled
) -> None:
    """Elements that unbatch and flat_map read again after a restore are those that they had read; and then the rest."""

    def pipeline() -> tf.data.Dataset:
        made = read(warm, order, batch_size=16).repeat(2).unbatch().batch(50).unbatch()
        symbolic = tf.data.Options()
        symbolic.experimental_symbolic_checkpoint = True
        return made.flat_map(lambda record: tf.data.Dataset.from_tensors(record).repeat(2)).with_options(symbolic)

    iterator = iter(pipeline())
    found: list[bytes] = []
    for elements in (1, 1235, 2700):
        found += [record.numpy() for record in itertools.islice(iterator, elements)]
        prefix = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
        list(itertools.islice(iterator, 300))
        iterator = iter(pipeline())
        tf.train.Checkpoint(iterator=iterator).read(prefix).assert_consumed()
    found += [record.numpy() for record in iterator]
    numbered.assert_each_once(numbered.numbers(found), TOTAL, times=4)
