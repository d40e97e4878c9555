"""The sampler against the simplest model of it, two sets; and that no operation looks at all shards."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tfquiver.service.coordinator.sampler import ResidentFirst

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
TestSamplerMachine.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def sampler(shards: int, resident: bytearray, seed: int = 1) -> ResidentFirst:
    return ResidentFirst(np.ones(shards, np.bool_), resident, [1] * shards, random.Random(seed))


@given(st.integers(0, 30), st.integers(0, 1 << 30), st.data())
def test_resident_shards_come_first(shards: int, seed: int, data: st.DataObject) -> None:
    resident = bytearray(data.draw(st.lists(st.integers(0, 1), min_size=shards, max_size=shards)))
    order = sampler(shards, resident, seed).take(shards, 1 << 40)
    assert [resident[shard] for shard in order] == sorted(resident, reverse=True)


def test_every_shard_is_as_likely_to_come_first() -> None:
    first = Counter(sampler(10, bytearray(10), seed).take(1, 1)[0] for seed in range(5000))
    chi_squared = sum((first[shard] - 500) ** 2 / 500 for shard in range(10))
    assert chi_squared < 33.7  # 9 degrees of freedom: exceeded once in 10 000


def test_the_order_follows_from_the_seed() -> None:
    assert sampler(50, bytearray(50), 7).take(50, 50) == sampler(50, bytearray(50), 7).take(50, 50)
    assert sampler(50, bytearray(50), 7).take(50, 50) != sampler(50, bytearray(50), 8).take(50, 50)


class CountedBytes(bytearray):
    """Counts its reads."""

    reads = 0

    def __getitem__(self, index: object) -> int:  # type: ignore[override]
        CountedBytes.reads += 1
        return super().__getitem__(index)  # type: ignore[call-overload, no-any-return]


def test_an_operation_costs_the_same_for_a_thousand_times_the_shards() -> None:
    """Counted, not timed: swaps and looks at the residency table."""

    def cost(shards: int) -> int:
        swaps = 0

        class Counting(ResidentFirst):
            def _swap(self, a: int, b: int) -> None:
                nonlocal swaps
                swaps += 1
                super()._swap(a, b)

        resident = CountedBytes(shards)
        subject = Counting(np.ones(shards, np.bool_), resident, np.ones(shards, np.uint64), random.Random(1))
        CountedBytes.reads = 0
        taken = subject.take(20, 1 << 40)
        subject.give_back(taken[:10])
        subject.remove(taken)
        for shard in taken:
            resident[shard] = 1
        subject.residency_changed(taken)
        return swaps + CountedBytes.reads

    assert cost(1_000_000) <= cost(1000) + 10
