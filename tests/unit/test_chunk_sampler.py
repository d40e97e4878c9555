"""The sampler over chunks, against a model that keeps sets."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_layout import ChunkLayout, ResidentSlots
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_sampler import ChunkSampler
from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_use import Menu
from tfquiver.shard_owners_chunks_hash_prefixes import striping


@dataclass
class ScriptedUse:
    """A rotation that says what the test wants, and remembers what it is told."""

    now: Menu = field(default_factory=Menu)
    version: int = 0
    taken_bytes: Counter[int] = field(default_factory=Counter)
    using: set[int] = field(default_factory=set)

    def say(self, menu: Menu) -> None:
        self.now, self.version = menu, self.version + 1

    def menu(self) -> Menu:
        return self.now

    def took(self, chunk: int, size_bytes: int) -> None:
        self.taken_bytes[chunk] += size_bytes

    def gave_back(self, chunk: int, size_bytes: int) -> None:
        self.taken_bytes[chunk] -= size_bytes

    def use_started(self, chunk: int) -> None:
        self.using.add(chunk)

    def use_ended(self, chunk: int) -> None:
        self.using.discard(chunk)


def make(
    shards: int, chunks: int, resident: bytearray, use: ScriptedUse, seed: int, homogeneous: bool = False, mix: int = 1
) -> tuple[striping.Striping, ChunkSampler, ResidentSlots]:
    lengths = np.arange(1, shards + 1, dtype=np.uint64)
    cut = striping.stripe(lengths, chunks)
    layout = ChunkLayout(cut, np.random.default_rng(seed), homogeneous)
    pending = np.ones(shards, np.bool_)
    there = ResidentSlots(layout, resident)
    return cut, ChunkSampler(layout, pending, (), there, lengths, use, random.Random(seed), mix), there


class SamplerMachine(RuleBasedStateMachine):
    @initialize(
        shards=st.integers(1, 60), chunks=st.integers(1, 9), homogeneous=st.booleans(), seed=st.integers(0, 99),
        mix=st.integers(1, 3),
    )  # fmt: skip
    def begin(self, shards: int, chunks: int, homogeneous: bool, seed: int, mix: int) -> None:
        self.shards, self.resident, self.use, self.mix = shards, bytearray(shards), ScriptedUse(), mix
        self.cut, self.sampler, self.there = make(shards, chunks, self.resident, self.use, seed, homogeneous, mix)
        self.pending = set(range(shards))
        self.in_hand: set[int] = set()
        self.last_taken: set[int] = set()
        self.returned: set[int] = set()

    def of(self, chunks: tuple[int, ...]) -> set[int]:
        return {shard for shard in self.pending if int(self.cut.chunk_of[shard]) in chunks}

    @rule(data=st.data())
    def menu(self, data: st.DataObject) -> None:
        some = st.lists(st.integers(0, self.cut.chunks - 1), max_size=4, unique=True).map(tuple)
        self.use.say(Menu(data.draw(some), data.draw(some), data.draw(some)))

    @rule(data=st.data())
    def flip(self, data: st.DataObject) -> None:
        shards = data.draw(st.lists(st.integers(0, self.shards - 1), max_size=20, unique=True))
        for shard in shards:
            self.resident[shard] ^= 1
        self.there.changed(np.array(shards, np.int64))

    @rule(n=st.integers(1, 8), max_bytes=st.integers(1, 200))
    def take(self, n: int, max_bytes: int) -> None:
        before = set(self.pending)
        shards = self.sampler.take(n, max_bytes)
        assert len(shards) == len(set(shards)) <= n and set(shards) <= before
        assert len(shards) <= 1 or sum(shard + 1 for shard in shards) <= max_bytes
        menu = self.use.now
        self.last_taken = set(shards)
        self.returned -= {int(self.cut.chunk_of[shard]) for shard in shards}
        for shard in shards:
            hits = {s for s in self.of(menu.hits) if self.resident[s]}
            misses = {s for s in self.of(menu.misses) if not self.resident[s]}
            assert shard in (hits or misses or self.of(menu.direct)), "hits first, then misses, then direct"
            if hits:
                rank = [c for c in menu.hits if any(self.cut.chunk_of[s] == c for s in hits)]
                assert int(self.cut.chunk_of[shard]) in rank[: self.mix]
            self.pending.discard(shard)
            self.in_hand.add(shard)
        if not shards:
            assert not {s for s in self.of(menu.hits) if self.resident[s]}
            assert not {s for s in self.of(menu.misses) if not self.resident[s]}
            assert not self.of(menu.direct)

    @rule(n=st.integers(1, 8), store_bytes=st.integers(-10, 150))
    def take_within_a_budget(self, n: int, store_bytes: int) -> None:
        """As ever; but of missing shards no more than that, or one shard beyond it."""
        hits = {s for s in self.of(self.use.now.hits) if self.resident[s]}
        shards = self.sampler.take(n, 1 << 40, store_bytes)
        missing = [shard + 1 for shard in shards if not self.resident[shard]]
        assert not missing or (store_bytes > 0 and sum(missing[:-1]) < store_bytes)
        assert shards or not hits, "hits cost nothing"
        self.last_taken = set(shards)
        self.returned -= {int(self.cut.chunk_of[shard]) for shard in shards}
        self.pending.difference_update(shards)
        self.in_hand.update(shards)

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        shards = data.draw(st.lists(st.sampled_from(sorted(self.in_hand)), unique=True)) if self.in_hand else []
        self.sampler.give_back(shards)
        self.last_taken.difference_update(shards)
        self.returned |= {int(self.cut.chunk_of[shard]) for shard in shards}
        self.pending.update(shards)
        self.in_hand.difference_update(shards)

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        rest = sorted(self.in_hand | self.pending)
        shards = data.draw(st.lists(st.sampled_from(rest), unique=True, max_size=10)) if rest else []
        self.sampler.remove(shards)
        self.pending.difference_update(shards)
        self.in_hand.difference_update(shards)

    @invariant()
    def agrees(self) -> None:
        assert self.sampler.pending == len(self.pending)
        taken = Counter[int]()
        for shard in set(range(self.shards)) - self.pending:
            taken[int(self.cut.chunk_of[shard])] += shard + 1
        assert +self.use.taken_bytes == taken
        chunk_of = self.cut.chunk_of
        begun = {int(chunk_of[s]) for s in self.in_hand} & {int(chunk_of[s]) for s in self.pending}
        begun -= self.returned  # of these all had been taken, and nothing has been taken again
        assert begun | {int(chunk_of[s]) for s in self.in_hand & self.last_taken} <= self.use.using
        for chunk in self.use.using:
            held = any(int(self.cut.chunk_of[s]) == chunk for s in self.in_hand | self.pending)
            assert held, "a chunk is in use only as long as something of it is pending or in hand"


TestSamplerMachine = SamplerMachine.TestCase
TestSamplerMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_two_sessions_that_load_a_chunk_together_seldom_ask_for_the_same(seed: int) -> None:
    """Two jobs that load one chunk together, turn by turn, fetch each shard once."""
    resident = bytearray(400)
    fetched = Counter[int]()
    samplers, tables = [], []
    for number in range(2):
        use = ScriptedUse()
        use.say(Menu(hits=(0,), misses=(0,)))
        _, sampler, there = make(400, 1, resident, use, seed + number)
        samplers.append(sampler)
        tables.append(there)
    while any(sampler.pending for sampler in samplers):
        leased = [sampler.take(4, 1 << 40) for sampler in samplers]
        arrived = [shard for shards in leased for shard in shards if not resident[shard]]
        fetched.update(arrived)
        for shard in arrived:
            resident[shard] = 1
        for there in tables:
            there.changed(np.array(arrived, np.int64))
    assert len(fetched) == 400
    assert sum(fetched.values()) <= 400 * 1.1


def test_homogeneous_reads_one_stripe_unit_to_its_end(seed: int) -> None:
    resident = bytearray(b"\1" * 400)
    use = ScriptedUse()
    cut, sampler, _ = make(400, 4, resident, use, seed, homogeneous=True)
    use.say(Menu(hits=tuple(range(cut.chunks))))
    units = [int(cut.unit_of[shard]) for shard in sampler.take(400, 1 << 40)]
    changes = sum(a != b for a, b in itertools.pairwise(units))
    assert len(units) == 400 and changes == len(set(units)) - 1


def test_without_homogeneous_a_chunk_is_drawn_from_at_random(seed: int) -> None:
    resident = bytearray(b"\1" * 4000)
    use = ScriptedUse()
    cut, sampler, _ = make(4000, 4, resident, use, seed)
    use.say(Menu(hits=(2,)))
    shards = np.array(sampler.take(10_000, 1 << 40))
    assert set(cut.chunk_of[shards]) == {2} and len(shards) == int((cut.chunk_of == 2).sum())
    correlation = np.corrcoef(shards[:-1], shards[1:])[0, 1]
    assert abs(correlation) < 5 / np.sqrt(len(shards))
