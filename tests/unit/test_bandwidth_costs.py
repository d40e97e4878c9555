"""Who pays for what is read from the store, and how much of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.budgeted import DATA, OTHER, SHARD_BYTES, World, crowd
from tfquiver.service.coordinator.bandwidth_budgets.bucket import Bucket


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


def test_a_job_without_a_rate_pays_by_heads() -> None:
    world = World(a=1000.0)
    world.jobs_of = {DATA: frozenset({"a", "free"})}
    world.budgets.tick(world.jobs_of, [DATA])
    world.budgets.leased_for_all("free", DATA, [1], [200])
    assert world.budgets.left_bytes("a") == pytest.approx(-100)


def test_who_begins_to_read_pays_for_what_is_loaded_from_then_on() -> None:
    world = World(a=1000.0, b=1000.0)
    budgets = world.budgets
    budgets.tick({DATA: frozenset("a")}, [DATA])
    budgets.resident(DATA, [1], [100])
    budgets.opened(DATA, "b")
    budgets.resident(DATA, [2], [1000])
    assert (budgets.left_bytes("a"), budgets.left_bytes("b")) == pytest.approx((-600, -500))


def test_what_was_paid_for_under_a_limit_that_is_gone_is_paid_for_again_under_the_next() -> None:
    world = World(a=1000.0)
    world.budgets.leased_for_all("a", DATA, [7], [SHARD_BYTES])
    world.budgets.pins.allocate("a", 0)
    world.clock.advance(3600.0)
    world.budgets.pins.allocate("a", 1000.0)
    world.budgets.leased_for_all("a", DATA, [7], [SHARD_BYTES])
    assert world.budgets.left_bytes("a") == -SHARD_BYTES
