"""Numbers drawn from a set of bits: each as likely as any other, whichever way they are found."""

from __future__ import annotations

import numpy as np
import pytest

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards import slots
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.slots import count, draw

MOST = 16


@pytest.mark.parametrize("there", [5, MOST, 40, 300, 2000, 4001])
def test_each_is_as_likely_and_they_are_in_no_order(there: int) -> None:
    rng, size, times = np.random.default_rng(there), 4001, 1500
    mask = np.zeros(size, np.bool_)
    mask[rng.choice(size, there, replace=False)] = True
    bits = np.packbits(mask, bitorder="little")
    drawn, firsts = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for _ in range(times):
        numbers, more = draw(bits, rng, first=7, most=MOST)
        assert len(set(numbers)) == len(numbers) <= MOST
        assert len(numbers) + more == there
        assert len(numbers) == there if there <= MOST else len(numbers) >= MOST // 4
        its = np.array(numbers, np.int64) - 7
        drawn[its] += 1
        firsts[its[0]] += 1
    assert not drawn[~mask].any()
    for counts in (drawn[mask], firsts[mask]):
        expected = counts.sum() / there
        assert np.abs(counts - expected).max() < 6 * np.sqrt(expected) + 3


@pytest.mark.parametrize("size", [0, 1, 7, 8, 63, 64, 65, 1000])
def test_all_are_counted(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = np.random.default_rng(size).random(size) < 0.5
    bits = np.packbits(mask, bitorder="little")
    assert count(bits) == mask.sum()
    assert sorted(draw(bits, np.random.default_rng(1), most=1000)[0]) == np.flatnonzero(mask).tolist()
    monkeypatch.delattr(slots.np, "bitwise_count", raising=False)
    assert count(bits) == mask.sum()


def test_of_many_one_is_found() -> None:
    bits, rng = np.packbits(np.random.default_rng(1).random(4000) < 0.02, bitorder="little"), np.random.default_rng(1)
    assert all(len(draw(bits, rng, most=1)[0]) == 1 for _ in range(100))
