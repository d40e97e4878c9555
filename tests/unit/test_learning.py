"""The accuracy bench's own measures: they tell a good shuffle from a bad one, and few runs from many."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tests.bench.learning import intervals, orders, quality
from tests.bench.learning.orders import Shards
from tests.bench.learning.packages import Package
from tfquiver import errors

BATCH = 32


def test_a_perfect_shuffle_has_no_correlation() -> None:
    measured = quality.measure(next(orders.perfect(20_000, 1, seed=1)), BATCH)
    assert abs(measured.within_batches) < 0.01
    assert abs(measured.neighbours) < 0.03
    assert measured.drift < 0.03


def test_the_stored_order_has_all_of_it() -> None:
    measured = quality.measure(np.arange(20_000), BATCH)
    assert min(measured.within_batches, measured.neighbours, measured.drift) > 0.999


def test_batches_of_one_place_show_though_the_places_come_at_random() -> None:
    blocks = np.arange(20_000).reshape(-1, BATCH)
    measured = quality.measure(np.random.default_rng(1).permutation(blocks).reshape(-1), BATCH)
    assert measured.within_batches > 0.999
    assert measured.drift < 0.1


def test_the_mean_of_few_runs_is_known_less_well() -> None:
    few, many = intervals.of([1.0, 2.0]), intervals.of([1.0, 2.0] * 8)
    assert few.mean == many.mean == 1.5
    assert few.half == pytest.approx(12.706 * 0.5)
    assert many.half == pytest.approx(2.131 * (0.25 * 16 / 15 / 16) ** 0.5)


def test_a_difference_beyond_its_interval_is_told() -> None:
    apart = intervals.difference([3.0, 3.1, 2.9], [1.0, 1.1, 0.9])
    assert apart.low > 1.5
    assert apart.mean == pytest.approx(2.0)
    same = intervals.difference([1.0, 1.2, 0.8], [1.1, 0.9, 1.0])
    assert same.low < 0 < same.high


def test_a_pool_lets_every_record_out_once_and_keeps_units_apart() -> None:
    shards = Shards.cut(np.full(95, 10), 10)
    unit_of = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 2], np.uint32)
    order = orders.pooled(shards, [3, 4, 5, 0, 1, 2, 9, 8, 7, 6], 150, random.Random(1), unit_of)
    assert sorted(order) == list(range(95))
    assert [int(unit) for unit in dict.fromkeys(unit_of[order // 10])] == [1, 0, 2]
    assert np.count_nonzero(np.diff(unit_of[order // 10].astype(int))) == 2


@pytest.mark.slow
def test_a_served_order_has_every_record_once_and_is_mixed(seed: int) -> None:
    shards = Shards.cut(np.full(8000, 100), 5)
    (order,) = orders.served(shards, 1, seed)
    assert sorted(order) == list(range(8000))
    assert abs(quality.measure(order, BATCH).within_batches) < 0.1


def test_a_package_that_is_not_what_was_published_is_refused(tmp_path: Path) -> None:
    package = Package("some-data", "1.0.0", "no such hash")
    (tmp_path / package.archive).write_bytes(b"something else")
    with pytest.raises(errors.DataLossError, match=r"some-data-1.0.0.tgz"):
        package.fetched(tmp_path)
