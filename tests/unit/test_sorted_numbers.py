"""Orders of many numbers that are made in less time are those that NumPy makes."""

from __future__ import annotations

import numpy as np
import pytest

from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import stable_order


@pytest.mark.parametrize("count", [0, 1, 2, 1023, 1024, 5000])
@pytest.mark.parametrize("different", [1, 7, 10**9])
def test_of_equal_numbers_those_that_came_first_go_first(count: int, different: int) -> None:
    drawn = np.random.default_rng(count + different).integers(0, different, count) / 7
    assert stable_order(drawn).tolist() == np.argsort(drawn, kind="stable").tolist()


def test_there_are_zeros_of_two_signs_and_infinities() -> None:
    drawn = np.random.default_rng(1).choice([0.0, -0.0, np.inf, -np.inf, 1.0], 3000)
    assert stable_order(drawn).tolist() == np.argsort(drawn, kind="stable").tolist()
