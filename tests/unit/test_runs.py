"""Missing shards in runs of neighbours: that they are runs, that all are as likely, and that batches stay mixed."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards import sampler as sampler_module
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards import slots
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.runs import run_of
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import ResidentFirst


@given(st.lists(st.booleans(), max_size=200), st.sampled_from([2, 4, 8]), st.integers(1, 50), st.integers(0, 99))
def test_groups_are_drawn_whole_and_one_after_the_other(mask: list[bool], run: int, most: int, seed: int) -> None:
    there = {number for number, is_there in enumerate(mask) if is_there}
    drawn, more = slots.draw_runs(slots.Slots(np.array(mask, np.bool_)).bits, np.random.default_rng(seed), run, most)
    numbers = list(drawn)[::-1]  # as they are taken
    assert len(numbers) + more == len(there)
    assert len(set(numbers)) == len(numbers) and set(numbers) <= there
    assert bool(numbers) == bool(there)
    seen: list[int] = []
    for number in numbers:
        if number // run not in seen[-1:]:
            assert number // run not in seen, "a group comes once"
            seen.append(number // run)
    for group in seen:
        assert [number for number in numbers if number // run == group] == sorted(
            number for number in there if number // run == group
        )


@pytest.mark.parametrize(
    ("shards", "shard_bytes", "run"),
    [(0, 0, 1), (10, 1 << 20, 1), (127, 1 << 20, 1), (128, 2 << 20, 2), (319, 2 << 20, 4), (320, 2 << 20, 5),
     (320, 2_200_000, 5), (5_000_000, 8 << 20, 2), (5_000_000, 40 << 20, 1), (5_000_000, 1000, 5)],
)  # fmt: skip
def test_runs_are_one_request_long_and_many(shards: int, shard_bytes: int, run: int) -> None:
    assert run_of(shards, shards * shard_bytes) == run


def order(shards: int, seed: int, run: int) -> list[int]:
    subject = ResidentFirst(np.ones(shards, np.bool_), bytearray(shards), [1] * shards, random.Random(seed), run=run)
    return subject.take(shards, 1 << 40)


def test_every_shard_comes_once_and_neighbours_together() -> None:
    taken = order(1000, 1, 5)
    assert sorted(taken) == list(range(1000))
    assert sum(after == before + 1 for before, after in itertools.pairwise(taken)) >= 800


def test_a_run_is_not_begun_that_does_not_fit() -> None:
    subject = ResidentFirst(np.ones(1000, np.bool_), bytearray(1000), [1] * 1000, random.Random(1), run=5)
    for max_bytes, given_out in ((7, 5), (4, 4), (8, 6), (10, 10), (14, 10)):
        taken = subject.take(1000, max_bytes)
        assert len(taken) == given_out, "what is left of one that was begun comes first"
        assert subject.pending


@given(st.integers(0, 99), st.lists(st.integers(0, 59), max_size=20), st.integers(1, 30))
def test_whatever_is_resident_or_comes_back_all_come_once(seed: int, changes: list[int], max_bytes: int) -> None:
    rng, resident = random.Random(seed), bytearray(60)
    subject = ResidentFirst(np.ones(60, np.bool_), resident, [1] * 60, rng, run=5)
    pending = set(range(60))
    while pending:
        taken = subject.take(100, max_bytes)
        assert taken and len(taken) <= max_bytes
        assert all(not resident[shard] for shard in taken) <= (not any(resident[shard] for shard in pending))
        pending.difference_update(taken)
        if changes:
            shard = changes.pop()
            resident[shard] ^= 1
            subject.residency_changed([shard])
            subject.give_back([shard])
            pending.add(shard)
    assert not subject.pending


@pytest.mark.slow
@pytest.mark.parametrize("most", [40, slots.MOST_DRAWN])
def test_every_shard_is_as_likely_to_come_first(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "draw_runs", partial(slots.draw_runs, most=most))
    groups, seeds = 10, 2000
    first = Counter(order(5 * groups, seed, 5)[0] // 5 for seed in range(seeds))
    chi_squared = sum((first[group] - seeds / groups) ** 2 / (seeds / groups) for group in range(groups))
    assert chi_squared < 33.7  # 9 degrees of freedom: exceeded once in 10 000


def test_batches_of_a_pool_stay_mixed() -> None:
    """512 shards of 16 records, a pool of 32 shards (64 MiB of the usual ones), batches of 64: from how many different
    places (8 neighbours) a batch comes. Read in stored order it is 13, were the pool as large as the data set 41."""
    shards, records, pool_shards, batch, near = 512, 16, 32, 64, 8

    def places_in_a_batch(taken: list[int], rng: random.Random) -> float:
        pool: list[int] = []
        coming, counts, now = iter(taken), [], []
        while True:
            while len(pool) < pool_shards * records and (shard := next(coming, None)) is not None:
                pool += [shard // near] * records
            if not pool:
                return sum(counts) / len(counts)
            at = rng.randrange(len(pool))
            pool[at], pool[-1] = pool[-1], pool[at]
            now.append(pool.pop())
            if len(now) == batch:
                counts.append(len(set(now)))
                now = []

    rng = random.Random(7)
    stored = places_in_a_batch(list(range(shards)), rng)
    single, runs = (sum(places_in_a_batch(order(shards, seed, run), rng) for seed in range(3)) / 3 for run in (1, 5))
    assert stored < 14.5
    assert single > 30
    assert runs > 18
