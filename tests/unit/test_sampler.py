"""The sampler against the simplest model of it, two sets; and what it costs for many shards."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards import sampler as sampler_module
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards import slots
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler import InAnyOrder, ResidentFirst

SHARDS = st.lists(st.integers(0, 1 << 20), max_size=8)


class SamplerMachine(RuleBasedStateMachine):
    @initialize(pending=st.lists(st.booleans(), min_size=1, max_size=20), seed=st.integers(0, 1 << 30))
    def begin(self, pending: list[bool], seed: int) -> None:
        rng = random.Random(seed)
        self.shards = len(pending)
        self.resident = bytearray(rng.randrange(2) for _ in pending)
        self.lengths = [rng.randrange(100) for _ in pending]
        self.pending = {shard for shard, is_pending in enumerate(pending) if is_pending}
        self.sampler = ResidentFirst(np.array(pending), self.resident, self.lengths, rng)

    def some(self, numbers: list[int]) -> list[int]:
        return [number % self.shards for number in numbers]

    @rule(n=st.integers(1, 8), max_bytes=st.integers(0, 300))
    def take(self, n: int, max_bytes: int) -> None:
        taken = self.sampler.take(n, max_bytes)
        assert len(taken) == len(set(taken)) <= n
        assert bool(taken) == bool(self.pending), "at least one, whatever its size"
        for shard in taken:
            assert self.resident[shard] or not any(self.resident[other] for other in self.pending)
            self.pending.remove(shard)
        size_bytes = sum(self.lengths[shard] for shard in taken)
        assert size_bytes <= max_bytes or len(taken) == 1
        if len(taken) < n and self.pending:
            assert size_bytes + max(self.lengths[shard] for shard in self.pending) > max_bytes

    @rule(n=st.integers(1, 8), store_bytes=st.integers(-10, 150))
    def take_within_a_budget(self, n: int, store_bytes: int) -> None:
        """Without any left it takes nothing but what is resident; else it goes beyond it by less than a shard."""
        taken = self.sampler.take(n, 1 << 40, store_bytes)
        self.pending.difference_update(taken)
        missing = [self.lengths[shard] for shard in taken if not self.resident[shard]]
        assert not missing or (store_bytes > 0 and sum(missing[:-1]) < store_bytes)
        assert len(taken) == n or not any(self.resident[shard] for shard in self.pending), "hits cost nothing"

    @rule(numbers=SHARDS)
    def give_back(self, numbers: list[int]) -> None:
        self.sampler.give_back(self.some(numbers))
        self.pending.update(self.some(numbers))

    @rule(numbers=SHARDS)
    def remove(self, numbers: list[int]) -> None:
        self.sampler.remove(self.some(numbers))
        self.pending.difference_update(self.some(numbers))

    @rule(numbers=SHARDS, value=st.integers(0, 1))
    def flip(self, numbers: list[int], value: int) -> None:
        for shard in self.some(numbers):
            self.resident[shard] = value
        self.sampler.residency_changed(self.some(numbers))

    @invariant()
    def counts(self) -> None:
        assert self.sampler.pending == len(self.pending)

    def teardown(self) -> None:
        if hasattr(self, "sampler"):
            assert sorted(self.sampler.take(self.shards, 1 << 40)) == sorted(self.pending)


TestSamplerMachine = SamplerMachine.TestCase
TestSamplerMachine = pytest.mark.slow(TestSamplerMachine)
TestSamplerMachine.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def sampler(shards: int, resident: bytearray, seed: int = 1) -> ResidentFirst:
    return ResidentFirst(np.ones(shards, np.bool_), resident, [1] * shards, random.Random(seed))


@given(st.integers(0, 30), st.integers(0, 1 << 30), st.data())
def test_resident_shards_come_first(shards: int, seed: int, data: st.DataObject) -> None:
    resident = bytearray(data.draw(st.lists(st.integers(0, 1), min_size=shards, max_size=shards)))
    order = sampler(shards, resident, seed).take(shards, 1 << 40)
    assert [resident[shard] for shard in order] == sorted(resident, reverse=True)


@pytest.mark.slow
def test_every_shard_is_as_likely_to_come_first() -> None:
    first = Counter(sampler(10, bytearray(10), seed).take(1, 1)[0] for seed in range(5000))
    chi_squared = sum((first[shard] - 500) ** 2 / 500 for shard in range(10))
    assert chi_squared < 33.7  # 9 degrees of freedom: exceeded once in 10 000


@pytest.mark.slow
@pytest.mark.parametrize("most_drawn", [16, slots.MOST_DRAWN])
def test_what_is_evicted_comes_in_anywhere_among_the_missing(most_drawn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that hear of the same change would otherwise all take it next, and read in step from then on."""
    monkeypatch.setattr(sampler_module, "draw", partial(slots.draw, most=most_drawn))
    others, runs = 41, 2000
    tenths = Counter[int]()
    for seed in range(runs):
        resident = bytearray([1]) + bytearray(others)
        subject = sampler(1 + others, resident, seed)
        assert subject.take(2, 1 << 40)[0] == 0
        subject.give_back([0])
        resident[0] = 0
        subject.residency_changed([0])
        tenths[subject.take(others, 1 << 40).index(0) * 10 // others] += 1
    likely = [len([rank for rank in range(others) if rank * 10 // others == tenth]) / others for tenth in range(10)]
    chi_squared = sum((tenths[tenth] - runs * likely[tenth]) ** 2 / (runs * likely[tenth]) for tenth in range(10))
    assert chi_squared < 33.7  # 9 degrees of freedom: exceeded once in 10 000


def test_in_any_order_nobody_follows_anybody() -> None:
    def order(changes: bool) -> list[int]:
        subject = InAnyOrder(np.ones(50, np.bool_), bytearray(50), [1] * 50, random.Random(1))
        taken = []
        while subject.pending:
            taken += subject.take(3, 1 << 40)
            if changes:
                subject.residency_changed([shard for shard in range(50) if shard not in taken][:5])
        return taken

    assert order(changes=True) == order(changes=False)


def test_what_may_be_missing_is_used_before_what_is_resident() -> None:
    resident = bytearray(b"\1\0") * 25
    subject = sampler(50, resident)
    first = subject.take(10, 1 << 40, 2.5)
    assert [resident[shard] for shard in first] == [0] * 3 + [1] * 7
    assert all(resident[shard] for shard in subject.take(10, 1 << 40, 0.0))
    resident[:] = b"\1" * 50
    subject.residency_changed(range(50))
    assert len(subject.take(50, 1 << 40, 5.0)) == 30
    assert not subject.pending


def test_in_any_order_only_what_is_missing_waits_for_the_budget() -> None:
    there = bytearray(b"\1") * 50
    subject = InAnyOrder(np.ones(50, np.bool_), bytearray(50), [1] * 50, random.Random(1), there)
    assert len(subject.take(20, 1 << 40, 0.0)) == 20
    there[:] = bytes(50)
    assert subject.take(20, 1 << 40, 0.0) == []
    assert len(subject.take(20, 1 << 40, 2.5)) == 3


def test_the_order_follows_from_the_seed() -> None:
    assert sampler(50, bytearray(50), 7).take(50, 50) == sampler(50, bytearray(50), 7).take(50, 50)
    assert sampler(50, bytearray(50), 7).take(50, 50) != sampler(50, bytearray(50), 8).take(50, 50)


@pytest.mark.slow
def test_a_session_costs_two_bits_a_shard_and_looks_at_all_of_them_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: 1000 sessions over 5 million shards are to fit into a few GiB."""
    shards, draws = 1_000_000, 0

    def counted(*args: Any) -> Any:
        nonlocal draws
        draws += 1
        return slots.draw(*args)

    monkeypatch.setattr(sampler_module, "draw", counted)
    resident, lengths = bytearray(shards), np.ones(shards, np.uint64)
    pending = np.ones(shards, np.bool_)
    tracemalloc.start()
    subject = ResidentFirst(pending, resident, lengths, random.Random(1))
    for _ in range(1000):
        taken = subject.take(32, 1 << 40)
        assert len(taken) == 32
        for shard in taken:
            resident[shard] = 1
        subject.residency_changed(taken)
        subject.give_back(taken[:2])
        subject.remove(taken)
    kept_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept_bytes < shards / 4 + 300_000
    assert draws <= 2 + 32_000 / slots.MOST_DRAWN * 1.1


def test_what_is_drawn_anew_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what stood in no window any more one was taken, and all were looked for again."""
    draws = 0

    def counted(*args: Any) -> Any:
        nonlocal draws
        draws += 1
        return slots.draw(*args)

    resident = bytearray(b"\1" * 20 + b"\0" * 20)
    subject = ResidentFirst(np.ones(40, np.bool_), resident, [1] * 40, random.Random(1))
    taken = subject.take(21, 100)
    subject.give_back(taken[:10])
    assert subject.take(1, 100)[0] in taken[:10], "the others stand in the window of what is resident"
    resident[:] = bytes(40)  # nobody is told
    monkeypatch.setattr(sampler_module, "draw", counted)
    assert len(subject.take(28, 100)) == 28
    assert draws <= 3


@pytest.mark.slow
def test_what_comes_back_in_crowds_does_not_stay_in_a_window() -> None:
    """Of readers that are lost at the end of an epoch: the few shards that were left are all in the window."""
    shards, cohort = 1_000_000, 50_000
    pending = np.zeros(shards, np.bool_)
    pending[:10] = True
    resident, lengths = bytearray(shards), np.ones(shards, np.uint64)
    tracemalloc.start()
    subject = ResidentFirst(pending, resident, lengths, random.Random(1))
    taken = subject.take(1, 1)
    for first in range(10, shards, cohort):
        subject.give_back(range(first, min(shards, first + cohort)))
        taken += subject.take(1, 1)
    assert len(set(taken)) == len(taken) == 1 + len(range(10, shards, cohort))
    ours = [tracemalloc.Filter(True, str(module.__file__)) for module in (sampler_module, slots)]
    kept_bytes = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(ours).traces)
    tracemalloc.stop()
    assert kept_bytes < shards / 4 + 400_000


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 50), st.integers(0, 99))
def test_numbers_are_drawn_from_bits(mask: list[bool], most: int, seed: int) -> None:
    subject = slots.Slots(np.array(mask, np.bool_))
    there = {number for number, is_there in enumerate(mask) if is_there}
    drawn, more = slots.draw(subject.bits, np.random.default_rng(seed), 8, most)
    numbers = [number - 8 for number in drawn]
    everything = more == 0
    assert len(numbers) + more == len(there)
    assert len(numbers) == len(set(numbers)) <= most and set(numbers) <= there
    assert everything == (len(there) <= most) and (not everything or set(numbers) == there)
    assert bool(numbers) == bool(there) and slots.count(subject.bits) == len(there) == subject.count
    assert [number in subject for number in range(len(mask))] == mask


@given(st.lists(st.booleans(), max_size=200), st.data())
def test_numbers_are_found_in_bits(mask: list[bool], data: st.DataObject) -> None:
    subject = slots.Slots(np.array(mask, np.bool_))
    start = data.draw(st.integers(0, len(mask)))
    end = data.draw(st.integers(start, len(mask)))
    assert subject.first_from(start) == next((at for at in range(start, len(mask)) if mask[at]), -1)
    assert subject.slice_mask(start, end).tolist() == mask[start:end]
