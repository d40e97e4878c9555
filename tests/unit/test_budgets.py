"""What jobs may read from the store: rates that hold over time, shares that are lent and given back, and who pays."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.service.coordinator.bandwidth_budgets import budgets as budgets_module
from tfquiver.service.coordinator.bandwidth_budgets import pins as module
from tfquiver.service.coordinator.bandwidth_budgets.bucket import Bucket
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets
from tfquiver.service.coordinator.bandwidth_budgets.lending import effective_rates, wanted

DATA, OTHER = b"data", b"other"
SHARD_BYTES = 100
RATES = st.floats(1.0, 1e12)
JOBS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.tuples(RATES, st.one_of(st.just(math.inf), st.floats(1.0, 1e12)))
)


@given(JOBS)
def test_what_is_lent_is_what_is_left_and_nobody_goes_short(jobs: dict[str, tuple[float, float]]) -> None:
    allocated = {job: rate for job, (rate, _) in jobs.items()}
    wants = {job: want for job, (_, want) in jobs.items()}
    rates = effective_rates(allocated, wants)
    assert rates.keys() == jobs.keys()
    assert sum(rates.values()) == pytest.approx(sum(allocated.values()))
    for job, rate in rates.items():
        assert rate >= min(wants[job], allocated[job]) * (1 - 1e-9)


@given(JOBS.filter(bool))
def test_nothing_is_idle_that_somebody_wants(jobs: dict[str, tuple[float, float]]) -> None:
    allocated = {job: rate for job, (rate, _) in jobs.items()}
    wants = {job: want for job, (_, want) in jobs.items()}
    rates = effective_rates(allocated, wants)
    used = sum(min(rates[job], wants[job]) for job in jobs)
    assert used == pytest.approx(min(sum(allocated.values()), sum(wants.values())))


def test_borrowers_share_by_their_allocations_up_to_what_they_want() -> None:
    rates = effective_rates({"a": 10, "b": 20, "c": 30, "d": 40}, {"a": math.inf, "b": math.inf, "c": 33, "d": 10})
    assert rates == pytest.approx({"a": 19, "b": 38, "c": 33, "d": 10})


@given(RATES, st.floats(0, 2))
def test_a_job_that_did_not_wait_keeps_some_room_to_grow(allocated: float, share: float) -> None:
    want = wanted(allocated, share * allocated, held_back=False)
    assert want >= 1.25 * share * allocated * (1 - 1e-9)
    assert (
        allocated / 8 <= want * (1 + 1e-9) <= (1.25 * share + 1 / 8) * allocated * (1 + 1e-9) or want == allocated / 8
    )
    assert wanted(allocated, 0.0, held_back=True) == math.inf


@given(RATES, st.lists(st.tuples(st.floats(0, 10), st.floats(0, 3)), max_size=60))
def test_a_bucket_lets_no_more_through_than_came_in(rate: float, takes: list[tuple[float, float]]) -> None:
    """Sizes and pauses in seconds of the rate."""
    bucket, now_s, taken, largest = Bucket(rate, 0.0), 0.0, 0.0, 0.0
    for size_s, pause_s in takes:
        now_s += pause_s
        if bucket.left_bytes(now_s) > 0:
            bucket.take(size_s * rate, now_s)
            taken, largest = taken + size_s * rate, max(largest, size_s * rate)
        else:
            waits_s = bucket.pause_s(now_s)
            assert waits_s >= 0
            assert bucket.left_bytes(now_s + waits_s * (1 + 1e-9)) > -1e-6 * rate
            now_s += waits_s * (1 + 1e-9)
        assert taken <= rate * now_s * (1 + 1e-6) + largest


class World:
    """Jobs that take as much as they are given, in steps of 10 ms; wants in bytes/s."""

    def __init__(self, **rates: float) -> None:
        self.clock = ManualClock()
        self.log: list[log_pb2.CommitRecord] = []
        self.budgets = Budgets(self.clock, self.log.append)
        self.jobs_of = {DATA: frozenset(rates)}
        for job, rate in rates.items():
            self.budgets.pins.allocate(job, rate)
        self.steps = 0

    def go(self, seconds: float, **wants: float) -> dict[str, float]:
        """What they took, bytes/s."""
        taken, owed = dict.fromkeys(wants, 0.0), dict.fromkeys(wants, 0.0)
        for _ in range(round(seconds * 100)):
            self.clock.advance(0.01)
            self.steps += 1
            for job, want in wants.items():
                owed[job] = min(owed[job] + want / 100, max(want / 10, 2 * SHARD_BYTES))
                while owed[job] >= SHARD_BYTES:
                    left = self.budgets.left_bytes(job)
                    if left is not None and left <= 0:
                        self.budgets.held_back(job)
                        break
                    self.budgets.leased(job, SHARD_BYTES)
                    taken[job] += SHARD_BYTES
                    owed[job] -= SHARD_BYTES
            if self.steps % 100 == 0:
                self.budgets.tick(self.jobs_of, [DATA])
        return {job: size / seconds for job, size in taken.items()}


def test_a_job_gets_its_rate_and_one_without_a_rate_whatever_it_asks_for() -> None:
    world = World(a=10_000.0)
    taken = world.go(10, a=1e6, free=50_000)
    assert taken["a"] == pytest.approx(10_000, rel=0.02)
    assert taken["free"] == pytest.approx(50_000, rel=0.02)


def test_what_a_job_does_not_use_is_lent_and_given_back_within_a_second() -> None:
    world = World(a=10_000.0, b=10_000.0)
    world.go(3, a=1e6, b=800)
    lent = world.go(10, a=1e6, b=800)
    assert lent["a"] == pytest.approx(10_000 + 7 / 8 * 10_000, rel=0.02)
    assert lent["b"] == pytest.approx(800, rel=0.1)
    world.go(1, a=1e6, b=1e6)
    both = world.go(5, a=1e6, b=1e6)
    assert both["a"] == pytest.approx(10_000, rel=0.03)
    assert both["b"] == pytest.approx(10_000, rel=0.03)


def test_a_job_that_is_not_there_lends_nothing() -> None:
    world = World(a=10_000.0, b=10_000.0)
    world.jobs_of = {DATA: frozenset("a")}
    assert world.go(10, a=1e6)["a"] == pytest.approx(10_000, rel=0.02)


def test_jobs_of_one_data_set_pay_together_and_for_each_shard_once() -> None:
    world = World(a=1000.0, b=3000.0)
    budgets = world.budgets
    budgets.tick(world.jobs_of, [DATA])
    world.clock.advance(0.2)
    budgets.leased_for_all("a", DATA, [1, 2], [200, 200])
    assert (budgets.left_bytes("a"), budgets.left_bytes("b")) == pytest.approx((200 - 100, 600 - 300))
    budgets.leased_for_all("b", DATA, [2], [200])  # joins the fetch
    budgets.resident(DATA, [1, 2, 3], [200, 200, 40])  # only the third was loaded unasked
    assert (budgets.left_bytes("a"), budgets.left_bytes("b")) == pytest.approx((100 - 10, 300 - 30))
    budgets.leased_for_all("b", DATA, [2], [200])  # it was evicted, and is fetched again
    assert (budgets.left_bytes("a"), budgets.left_bytes("b")) == pytest.approx((90 - 50, 270 - 150))


def crowd(jobs: int) -> World:
    world = World()
    world.budgets.plan({f"job{at}": 1000.0 * (1 + at % 3) for at in range(jobs)})
    world.jobs_of = {DATA: frozenset(world.budgets.allocated)}
    world.budgets.tick(world.jobs_of, [DATA])
    return world


def test_what_a_thousand_jobs_pay_together_is_charged_when_one_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = [0]
    left_bytes = Bucket.left_bytes

    def counted(self: Bucket, now_s: float) -> float:
        looked[0] += 1
        return left_bytes(self, now_s)

    world = crowd(1000)
    budgets = world.budgets
    world.clock.advance(0.2)
    monkeypatch.setattr(Bucket, "left_bytes", counted)
    for shard in range(100):
        budgets.leased_for_all("job0", DATA, [shard], [600])
        budgets.left_bytes("job0")
    budgets.resident(DATA, [100], [1000])
    assert looked[0] < 500, "it was each job for each lease"
    together = sum(budgets.allocated.values())
    for job in ("job0", "job1", "job999"):
        rate = budgets.allocated[job]
        assert budgets.left_bytes(job) == pytest.approx(0.2 * rate - 61_000 * rate / together)
    world.clock.advance(1)
    budgets.tick(world.jobs_of, [DATA])
    assert sum(budgets.used_bytes_per_s.values()) == pytest.approx(61_000 / 1.2)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(1, 1000), st.floats(0, 0.01)), max_size=30))
def test_whoever_looks_changes_nothing(leases: list[tuple[str, float, float]]) -> None:
    seen, unseen = World(a=1e3, b=3e3), World(a=1e3, b=3e3)
    for world in (seen, unseen):
        world.budgets.tick(world.jobs_of, [DATA])
        for shard, (job, size, pause_s) in enumerate(leases):
            world.clock.advance(pause_s)
            world.budgets.leased_for_all(job, DATA, [shard], [int(size)])
            if world is seen:
                assert all(world.budgets.left_bytes(one) is not None for one in "ab")
    for job in "ab":
        assert seen.budgets.left_bytes(job) == pytest.approx(unseen.budgets.left_bytes(job))


@pytest.mark.parametrize("first", [DATA, OTHER])
def test_a_job_of_two_data_sets_pays_both_of_what_came_in_meanwhile(first: bytes) -> None:
    world = World(a=1000)
    budgets = world.budgets
    budgets.tick({DATA: frozenset("a"), OTHER: frozenset("a")}, [])
    budgets.leased_for_all("a", first, [100], [1])
    for shard in range(10):
        world.clock.advance(0.1)
        budgets.leased_for_all("a", OTHER, [shard], [90])
    assert budgets.left_bytes("a") == pytest.approx(1000 - 900 - 1)


def test_lenders_that_come_back_at_once_have_theirs_and_are_not_all_weighed_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, weighed = crowd(1000), [0]
    budgets = world.budgets

    def counted(*args: Mapping[str, float]) -> dict[str, float]:
        weighed[0] += 1
        return effective_rates(*args)

    monkeypatch.setattr(budgets_module, "effective_rates", counted)
    for _ in range(2):  # only the first wants anything
        budgets.leased("job0", 10**9)
        budgets.held_back("job0")
        world.clock.advance(1)
        budgets.tick(world.jobs_of, [DATA])
    assert budgets.effective("job1") < budgets.allocated["job1"]
    weighed[0] = 0
    for job in budgets.allocated:
        budgets.leased(job, 10**9)
        budgets.held_back(job)
        assert budgets.effective(job) >= budgets.allocated[job]
    assert weighed[0] <= 1, "it was once for each"
    world.clock.advance(0.06)
    budgets.left_bytes("job0")
    assert budgets.effective("job0") == pytest.approx(budgets.allocated["job0"]), "nothing is lent any more"


def test_what_a_job_borrowed_from_one_with_a_rate_far_beyond_its_own_is_forgotten_without_a_trace() -> None:
    """A pin as large as may be, which means no limit, and a rate of nearly nothing: they leave no digit of each other
    in a sum."""
    clock = ManualClock()
    budgets = Budgets(clock)
    budgets.pins.allocate("no limit", 1e18)
    budgets.pins.allocate("least", 1.0)
    readers = {DATA: frozenset(("least",)), OTHER: frozenset(("no limit",))}
    for _ in range(2):
        clock.advance(1.0)
        budgets.held_back("least")
        budgets.tick(readers, ())
    assert budgets.effective("least") > 1e17, "it borrows"
    budgets.leased_for_all("least", DATA, [0], [SHARD_BYTES])
    clock.advance(0.5)
    budgets.held_back("no limit")
    assert budgets.effective("least") == 1.0
    budgets.leased_for_all("least", DATA, [1], [SHARD_BYTES])
    left = budgets.left_bytes("least")
    assert left is not None and left >= -SHARD_BYTES, "it pays for the shard once"


def test_a_job_without_a_rate_pays_by_heads() -> None:
    world = World(a=1000.0)
    world.jobs_of = {DATA: frozenset({"a", "free"})}
    world.budgets.tick(world.jobs_of, [DATA])
    world.budgets.leased_for_all("free", DATA, [1], [200])
    assert world.budgets.left_bytes("a") == pytest.approx(-100)


def test_what_nodes_load_beyond_the_rate_shuts_nobody_out_for_long() -> None:
    world = World(a=1000.0)
    world.budgets.tick(world.jobs_of, [DATA])
    world.budgets.resident(DATA, range(1000), [1000] * 1000)
    assert world.budgets.left_bytes("a") == pytest.approx(-5000)
    assert world.budgets.pause_s("a") == 1.0, "a reader asks again: it may have another rate by then"
    world.clock.advance(5.03)
    assert world.budgets.pause_s("a") == 0.05, "what has come in since it was refused must not let it wait for ever"
    world.clock.advance(0.1)
    assert world.budgets.pause_s("a") is None
    assert world.budgets.pause_s("free") is None


def test_nodes_are_told_what_the_jobs_of_a_data_set_may_read_together() -> None:
    world = World(a=1000.0, b=3000.0)
    budgets = world.budgets
    budgets.tick({DATA: frozenset("ab"), OTHER: frozenset("b")}, [DATA, OTHER])
    assert (budgets.told(DATA), budgets.told(OTHER)) == pytest.approx((1000 + 1500, 1500))
    orders = budgets.orders
    budgets.tick({DATA: frozenset("ab"), OTHER: frozenset("b")}, [DATA, OTHER])
    assert budgets.orders == orders, "nothing new"
    world.clock.advance(1)
    budgets.tick({DATA: frozenset({"a", "b", "free"}), OTHER: frozenset("b")}, [DATA, OTHER])
    assert budgets.told(DATA) == 0, "one of them reads as it can"
    assert budgets.orders > orders


def test_between_two_epochs_nodes_keep_to_what_they_were_told() -> None:
    """When nobody reads for a moment, nobody reads as fast as he can either."""
    world = World(a=1000.0, b=500.0)
    budgets = world.budgets
    budgets.tick({DATA: frozenset("ab")}, [DATA])
    orders = budgets.orders
    world.clock.advance(1)
    budgets.tick({}, [DATA])
    assert (budgets.told(DATA), budgets.orders) == (1500, orders)
    budgets.opened(DATA, "b")
    assert budgets.told(DATA) == 500
    budgets.opened(DATA, "a")
    assert budgets.told(DATA) == 1500
    budgets.opened(DATA, "free")
    assert budgets.told(DATA) == 0


def test_who_begins_to_read_pays_for_what_is_loaded_from_then_on() -> None:
    world = World(a=1000.0, b=1000.0)
    budgets = world.budgets
    budgets.tick({DATA: frozenset("a")}, [DATA])
    budgets.resident(DATA, [1], [100])
    budgets.opened(DATA, "b")
    budgets.resident(DATA, [2], [1000])
    assert (budgets.left_bytes("a"), budgets.left_bytes("b")) == pytest.approx((-600, -500))


def test_a_second_data_set_of_a_job_takes_its_part_of_the_first_ones_rate() -> None:
    world = World(a=1000.0)
    world.budgets.opened(DATA, "a")
    world.budgets.opened(OTHER, "a")
    assert (world.budgets.told(DATA), world.budgets.told(OTHER)) == (500, 500)


def test_the_first_reader_is_loaded_for_at_its_rate_from_the_beginning() -> None:
    world = World(a=1000.0)
    orders = world.budgets.orders
    world.budgets.opened(DATA, "a")
    assert (world.budgets.told(DATA), world.budgets.orders) == (1000, orders + 1)
    world.budgets.opened(DATA, "a")
    assert world.budgets.orders == orders + 1


def test_pins_are_journaled_and_policies_leave_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(a=1000.0)
    budgets = world.budgets
    budgets.plan({"a": 1.0, "b": 5.0})
    assert budgets.allocated == {"a": 1000.0, "b": 5.0}
    budgets.pins.allocate("c", 7.0)
    budgets.pins.allocate("a", 0)
    assert budgets.allocated == {"a": 1.0, "b": 5.0, "c": 7.0}
    budgets.plan({})
    for records in (world.log, list(budgets.pins.still()())):
        again = Budgets(world.clock)
        for record in records:
            again.pins.apply(record.remote_io_allocated)
        assert not again.allocated, "with each of ten thousand anew it would take a minute"
        again.restored()
        assert again.allocated == budgets.allocated == {"c": 7.0}
    monkeypatch.setattr(module, "MAX_PINS", 1)
    with pytest.raises(errors.ResourceExhaustedError, match="job: 1 jobs have an allocation"):
        budgets.pins.allocate("d", 1.0)
    budgets.pins.allocate("c", 8.0)
    budgets.pins.allocate("c", 0)
    assert not budgets.in_use
    assert budgets.left_bytes("c") is None


def test_nodes_load_as_fast_as_they_can_when_the_last_allocation_is_taken_back() -> None:
    """Nobody ticks budgets that are not in use."""
    world = World(a=1000.0)
    digest_id = b"d" * 32
    world.budgets.tick({digest_id: frozenset({"a"})}, [digest_id])
    assert world.budgets.told(digest_id) == 1000.0
    orders = world.budgets.orders
    world.budgets.pins.allocate("a", 0)
    assert not world.budgets.in_use
    assert (world.budgets.told(digest_id), world.budgets.orders) == (0.0, orders + 1)


def test_what_was_paid_for_under_a_limit_that_is_gone_is_paid_for_again_under_the_next() -> None:
    world = World(a=1000.0)
    world.budgets.leased_for_all("a", DATA, [7], [SHARD_BYTES])
    world.budgets.pins.allocate("a", 0)
    world.clock.advance(3600.0)
    world.budgets.pins.allocate("a", 1000.0)
    world.budgets.leased_for_all("a", DATA, [7], [SHARD_BYTES])
    assert world.budgets.left_bytes("a") == -SHARD_BYTES


def test_what_jobs_used_that_have_no_limit_any_more_is_forgotten() -> None:
    """Who has the first limit after an hour without any does not seem to have used it for that hour."""
    world = World()
    for number in range(3):
        world.budgets.pins.allocate(f"job {number}", 1000.0)
        world.budgets.leased(f"job {number}", SHARD_BYTES)
        world.budgets.pins.allocate(f"job {number}", 0)
    world.clock.advance(3600.0)
    world.jobs_of = {DATA: frozenset({"job 0"})}
    world.budgets.pins.allocate("job 0", 1000.0)
    world.go(1.0, **{"job 0": 1000.0})
    assert world.budgets.used_bytes_per_s == {"job 0": pytest.approx(1000.0, rel=0.2)}
    assert not world.budgets._used_bytes


class CountingClock(ManualClock):
    asked = 0

    def now(self) -> float:
        self.asked += 1
        return super().now()


def test_what_a_scheduler_pins_is_worked_out_once_and_before_it_is_asked_for() -> None:
    """A thousand jobs, one after the other, took three seconds of the coordinator's loop."""
    clock = CountingClock()
    budgets = Budgets(clock)
    for round in (1, 2):
        clock.asked = 0
        for number in range(1000):
            budgets.pins.allocate(f"job {number}", 1000.0 * round)
        assert budgets.in_use
        assert clock.asked < 10
        assert budgets.effective("job 7") == 1000.0 * round
    for number in range(999):
        budgets.pins.allocate(f"job {number}", 0)
    assert list(budgets.allocated) == ["job 999"]
