"""What is loaded next: urgent first, in turns, nothing twice, and what fails is left alone for a while."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tfquiver.service.node.coordinator_orders.load_plan import (
    FIRST_RETRY_S,
    LONGEST_RETRY_S,
    SWEEP_AGAIN_S,
    ChunkLoad,
    Load,
    LoadPlan,
)

A, B = b"a", b"b"


class Disk:
    def __init__(self) -> None:
        self.here: set[tuple[bytes, int]] = set()
        self.room = 1000

    def lacks(self, digest_id: bytes, shard: int) -> bool:
        return (digest_id, shard) not in self.here

    def has_room(self, digest_id: bytes, shard: int) -> bool:
        return len(self.here) < self.room


def drained(plan: LoadPlan, disk: Disk, now: float = 0.0, urgent: bool = True) -> list[tuple[bytes, int]]:
    found = []
    while load := plan.next(now, urgent):
        disk.here.add(load.key)
        plan.ended(load, now, failed=False)
        found.append(load.key)
    return found


def test_urgent_chunks_first_data_sets_in_turn_and_the_rest_only_when_asked_for() -> None:
    disk = Disk()
    plan = LoadPlan(disk.lacks, disk.has_room)
    plan.replace(
        [ChunkLoad(A, 3, [30, 31], True), ChunkLoad(A, 1, [10], False), ChunkLoad(B, 0, [0, 1, 2], True)], now=0.0
    )
    disk.here.add((B, 1))
    assert drained(plan, disk) == [(A, 30), (B, 0), (A, 31), (B, 2)]
    assert drained(plan, disk, urgent=False) == [(A, 10)]
    assert plan.under_way(urgent=True) == plan.under_way(urgent=False) == 0


def test_a_data_set_that_is_held_is_passed_over_until_its_time() -> None:
    disk = Disk()
    plan = LoadPlan(disk.lacks, disk.has_room)
    plan.replace([ChunkLoad(A, 0, [1, 2], True), ChunkLoad(B, 0, [3, 4], True)], 0.0)
    plan.hold(A, 1.5)
    assert drained(plan, disk, 1.0) == [(B, 3), (B, 4)]
    assert plan.pause_s(1.0) == 0.5
    assert drained(plan, disk, 1.5) == [(A, 1), (A, 2)]
    assert plan.pause_s(1.5) == SWEEP_AGAIN_S - 1.5
    plan.hold(A, 9.0)
    plan.replace([ChunkLoad(A, 0, [5], True)], 2.0)
    assert drained(plan, disk, 2.0) == [], "newer orders do not let it go"
    plan.replace([], 2.0)
    plan.replace([ChunkLoad(A, 0, [5], True)], 2.0)
    assert drained(plan, disk, 2.0) == [(A, 5)]


def test_a_shard_under_way_is_not_begun_again_by_new_orders() -> None:
    disk = Disk()
    plan = LoadPlan(disk.lacks, disk.has_room)
    plan.replace([ChunkLoad(A, 0, [1, 2], False)], 0.0)
    first = plan.next(0.0, urgent=False)
    assert first == Load(A, 1, False)
    plan.replace([ChunkLoad(A, 0, [1, 2], True)], 0.0)
    assert plan.next(0.0, urgent=True) == Load(A, 2, True)
    assert plan.next(0.0, urgent=True) is None
    plan.replace([], 0.0)
    plan.ended(first, 0.0, failed=True)
    assert plan.pause_s(0.0) is None


def test_what_fails_is_tried_again_later_and_later() -> None:
    disk = Disk()
    plan = LoadPlan(disk.lacks, disk.has_room)
    plan.replace([ChunkLoad(A, 0, [1], True)], 0.0)
    now, tries = 0.0, []
    while now < 1000.0:
        if load := plan.next(now, urgent=True):
            tries.append(now)
            plan.ended(load, now, failed=True)
        pause_s = plan.pause_s(now)
        assert pause_s is not None
        now += max(pause_s, 0.001)
    gaps = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert FIRST_RETRY_S <= gaps[0] <= FIRST_RETRY_S + 0.01
    assert all(earlier <= later for earlier, later in itertools.pairwise(gaps))
    assert LONGEST_RETRY_S <= gaps[-1] < LONGEST_RETRY_S + SWEEP_AGAIN_S + 0.01


def test_what_goes_missing_after_its_turn_is_found_again() -> None:
    disk = Disk()
    plan = LoadPlan(disk.lacks, disk.has_room)
    plan.replace([ChunkLoad(A, 0, [1, 2, 3], True)], 0.0)
    assert len(drained(plan, disk)) == 3
    disk.here.discard((A, 2))
    assert drained(plan, disk, now=1.0) == []
    assert drained(plan, disk, now=SWEEP_AGAIN_S) == [(A, 2)]


def test_a_chunk_without_room_waits_where_it_is() -> None:
    disk = Disk()
    plan = LoadPlan(disk.lacks, disk.has_room)
    plan.replace([ChunkLoad(A, 0, [1, 2, 3], True)], 0.0)
    disk.room = 2
    assert drained(plan, disk) == [(A, 1), (A, 2)]
    disk.room = 3
    assert drained(plan, disk) == [(A, 3)]


CHUNKS = st.lists(
    st.builds(
        ChunkLoad,
        st.sampled_from([A, B]),
        st.integers(0, 3),
        st.lists(st.integers(0, 9), unique=True, max_size=6),
        st.booleans(),
    ),
    max_size=4,
)


class Plans(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.disk = Disk()
        self.plan = LoadPlan(self.disk.lacks, self.disk.has_room)
        self.orders: list[ChunkLoad] = []
        self.under_way: list[Load] = []
        self.failed_until: dict[tuple[bytes, int], float] = {}

    @rule(orders=CHUNKS)
    def order(self, orders: list[ChunkLoad]) -> None:
        self.orders = orders
        self.plan.replace(orders, self.now)

    @rule(urgent=st.booleans())
    def start(self, urgent: bool) -> None:
        load = self.plan.next(self.now, urgent)
        if load is None:
            return
        assert load.key not in {other.key for other in self.under_way}
        assert load.key not in self.disk.here
        assert any(o.digest_id == load.digest_id and load.shard in o.shards and o.urgent == urgent for o in self.orders)
        self.under_way.append(load)

    @rule(number=st.integers(0, 99), failed=st.booleans())
    def end(self, number: int, failed: bool) -> None:
        if self.under_way:
            load = self.under_way.pop(number % len(self.under_way))
            if not failed:
                self.disk.here.add(load.key)
            self.plan.ended(load, self.now, failed)

    @rule(digest_id=st.sampled_from([A, B]), shard=st.integers(0, 9))
    def lose(self, digest_id: bytes, shard: int) -> None:
        self.disk.here.discard((digest_id, shard))

    @rule(room=st.integers(0, 20))
    def limit(self, room: int) -> None:
        self.disk.room = room

    @rule(s=st.floats(0.0, 30.0))
    def wait(self, s: float) -> None:
        self.now += s

    @invariant()
    def counts_agree(self) -> None:
        for urgent in (True, False):
            assert self.plan.under_way(urgent) == sum(load.urgent is urgent for load in self.under_way)

    def teardown(self) -> None:
        """When nothing fails any more everything that is ordered comes in, in bounded time."""
        for load in self.under_way:
            self.disk.here.add(load.key)
            self.plan.ended(load, self.now, failed=False)
        self.disk.room = 1000
        until = self.now + LONGEST_RETRY_S + SWEEP_AGAIN_S
        while self.now <= until:
            drained(self.plan, self.disk, self.now)
            drained(self.plan, self.disk, self.now, urgent=False)
            pause_s = self.plan.pause_s(self.now)
            if pause_s is None:
                break
            self.now += max(pause_s, 0.001)
        assert {(o.digest_id, shard) for o in self.orders for shard in o.shards} <= self.disk.here


TestPlans = Plans.TestCase
TestPlans.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
