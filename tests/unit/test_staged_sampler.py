"""Samplers of draws against the simplest model of them: a set of draws, stage by stage."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.python_calls import python_calls
from tfquiver.messages_and_binary_formats.drawn_shards import DrawnShards
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards import staged
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.staged import InTurn, Staged

SHARDS = 8
NUMBERS = st.lists(st.integers(0, 1 << 20), max_size=6)


class Machine(RuleBasedStateMachine):
    in_turn: ClassVar[bool]

    @initialize(
        shards=st.lists(st.integers(0, SHARDS - 1), min_size=1, max_size=24),
        cut=st.sets(st.integers(1, 23), max_size=4),
        seed=st.integers(0, 1 << 30),
    )  # fmt: skip
    def begin(self, shards: list[int], cut: set[int], seed: int) -> None:
        rng = random.Random(seed)
        ends = sorted({end for end in cut if end < len(shards) and not self.in_turn} | {len(shards)})
        ordered = np.array(shards, np.uint32)
        if not self.in_turn:
            for start, end in zip([0, *ends], ends, strict=False):
                ordered[start:end].sort()
        self.drawn = DrawnShards("test", ordered, tuple(ends), self.in_turn, 1)
        self.shard_of = ordered.tolist()
        self.stage_of = np.searchsorted(ends, np.arange(len(shards)), "right").tolist()
        self.resident = bytearray(rng.randrange(2) for _ in range(SHARDS))
        self.lengths = np.array([rng.randrange(100) for _ in range(SHARDS)], np.uint64)
        self.pending = {draw for draw in range(len(shards)) if rng.randrange(4)}
        mask = np.isin(np.arange(len(shards)), list(self.pending))
        if self.in_turn:
            self.sampler: Staged | InTurn = InTurn(self.drawn, mask, self.resident, self.lengths)
        else:
            self.sampler = Staged(self.drawn, mask, self.resident, self.lengths, rng)

    def some(self, numbers: list[int]) -> list[int]:
        return [number % len(self.shard_of) for number in numbers]

    def bytes_of(self, draws: list[int]) -> int:
        return sum(int(self.lengths[self.shard_of[draw]]) for draw in draws)

    def there(self, draw: int) -> bool:
        return bool(self.resident[self.shard_of[draw]])

    def check_order(self, draw: int) -> None:
        if self.in_turn:
            assert draw == min(self.pending)
            return
        stage = min(self.stage_of[other] for other in self.pending)
        assert self.stage_of[draw] == stage, "a stage comes when the one before has come"
        now = [other for other in self.pending if self.stage_of[other] == stage]
        assert self.there(draw) or not any(map(self.there, now)), "what is resident comes first"

    @rule(n=st.integers(1, 8), max_bytes=st.integers(0, 300))
    def take(self, n: int, max_bytes: int) -> None:
        taken = self.sampler.take(n, max_bytes)
        assert len(taken) == len(set(taken)) <= n
        assert bool(taken) == bool(self.pending), "at least one, whatever its size"
        for draw in taken:
            self.check_order(draw)
            self.pending.remove(draw)
        assert self.bytes_of(taken) <= max_bytes or len(taken) == 1

    @rule(n=st.integers(1, 8), store_bytes=st.integers(-10, 150))
    def take_within_a_budget(self, n: int, store_bytes: int) -> None:
        """Without any left it takes nothing but what is resident; else it goes beyond it by less than a shard."""
        taken = self.sampler.take(n, 1 << 40, store_bytes)
        assert set(taken) <= self.pending
        self.pending.difference_update(taken)
        missing = [draw for draw in taken if not self.there(draw)]
        assert not missing or (store_bytes > 0 and self.bytes_of(missing[:-1]) < store_bytes)

    @rule(numbers=NUMBERS)
    def give_back(self, numbers: list[int]) -> None:
        self.sampler.give_back(self.some(numbers))
        self.pending.update(self.some(numbers))

    @rule(numbers=NUMBERS)
    def remove(self, numbers: list[int]) -> None:
        self.sampler.remove(self.some(numbers))
        self.pending.difference_update(self.some(numbers))

    @rule(numbers=NUMBERS, value=st.integers(0, 1))
    def flip(self, numbers: list[int], value: int) -> None:
        shards = [number % SHARDS for number in numbers]
        for shard in shards:
            self.resident[shard] = value
        self.sampler.residency_changed(shards)

    @invariant()
    def counts(self) -> None:
        assert self.sampler.pending == len(self.pending)

    def teardown(self) -> None:
        if hasattr(self, "sampler"):
            left = []
            while self.sampler.pending:
                left += self.sampler.take(4, 1 << 40)
            assert sorted(left) == sorted(self.pending)


class StagedMachine(Machine):
    in_turn = False


class InTurnMachine(Machine):
    in_turn = True


TestStaged = StagedMachine.TestCase
TestInTurn = InTurnMachine.TestCase


class CrowdedMachine(StagedMachine):
    """More changes come than are remembered one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(staged, "_MOST_CHANGED", 7)
        self.patch.setattr(staged, "_MOST_PIECES", 2)

    def teardown(self) -> None:
        super().teardown()
        self.patch.undo()


TestCrowded = CrowdedMachine.TestCase
TestCrowded.settings = TestStaged.settings = TestInTurn.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None
)


def test_a_draw_is_a_hit_once_its_shard_has_been_fetched_for_another() -> None:
    drawn = DrawnShards("test", np.repeat(np.arange(50, dtype=np.uint32), 4), (200,), False, 200)
    resident, lengths = bytearray(50), np.full(50, 10, np.uint64)
    sampler = Staged(drawn, np.ones(200, np.bool_), resident, lengths, random.Random(1))
    misses, shards = 0, drawn.shards.tolist()
    while sampler.pending:
        for draw in sampler.take(1, 100):
            misses += not resident[shards[draw]]
            resident[shards[draw]] = 1
            sampler.residency_changed([shards[draw]])
    assert misses == 50


class Unread(Sequence[int]):
    """Shards that nobody looks at yet."""

    def __len__(self) -> int:
        return 500

    def __getitem__(self, at: Any) -> NoReturn:
        raise AssertionError("a thousand sessions are told on the loop, one after the other")


def test_who_is_told_of_changes_looks_at_them_when_it_reads_on() -> None:
    drawn = DrawnShards("test", np.arange(1000, dtype=np.uint32), (1000,), False, 1000)
    resident = bytearray(1000)
    sampler = Staged(drawn, np.ones(1000, np.bool_), resident, np.full(1000, 10, np.uint64), random.Random(1))
    sampler.residency_changed(Unread())
    with pytest.raises(AssertionError, match="one after the other"):
        sampler.take(1, 100)


def test_a_session_takes_little_more_than_a_byte_of_each_draw() -> None:
    draws = 1 << 20
    drawn = DrawnShards("test", np.arange(draws, dtype=np.uint32), (draws,), False, draws)
    resident, lengths = bytearray(draws), np.full(draws, 10, np.uint64)
    tracemalloc.start()
    try:
        sampler = Staged(drawn, np.ones(draws, np.bool_), resident, lengths, random.Random(1))
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sampler.pending == draws
    assert taken_bytes < 1.5 * draws


def test_what_has_been_read_is_not_gone_through_one_by_one() -> None:
    draws = 50_000
    drawn = DrawnShards("test", np.arange(draws, dtype=np.uint32), (draws,), True, draws)
    pending = np.zeros(draws, np.bool_)
    pending[[3, draws - 2]] = True  # as of a reader that is lost, when a coordinator was started again
    sampler = InTurn(drawn, pending, bytearray(draws), np.full(draws, 10, np.uint64))
    taken: list[int] = []
    assert python_calls(lambda: taken.extend(sampler.take(8, 1000))) < 200
    assert taken == [3, draws - 2]
