"""Probes of simulated jobs: what comes out is what is true of them, and nobody misses for longer than he must."""

from __future__ import annotations

import dataclasses
import random
from typing import Any, ClassVar

import pytest

from tests.unit.probing_world import SimJob
from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import Counters
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_load import StoreLoad
from tfquiver.service.coordinator.probing.limits import ProbeLimits
from tfquiver.service.coordinator.probing.measurement import JobMeasurement
from tfquiver.service.coordinator.probing.probe import ProbeResult
from tfquiver.service.coordinator.probing.schedule import ProbeSchedule

TICK_S = 1.0
LONG = 10**9  # bytes that a job is known to read: missing may cost enough


class Run:
    def __init__(self, *jobs: SimJob, schedule: ProbeSchedule | None = None) -> None:
        self.jobs = {job.name: job for job in jobs}
        self.schedule = schedule or ProbeSchedule()
        self.now = 0.0
        self.store = StoreLoad(s_per_byte=1e-6)
        self.missed: list[tuple[float, str]] = []

    def until(self, seconds: float) -> Run:
        while self.now < seconds:
            self.now += TICK_S
            for job in self.jobs.values():
                job.run(TICK_S, self.now)
            told = [job.measurement() for job in self.jobs.values()]
            for order in self.schedule.tick(self.now, told, self.store):
                if order.miss:
                    self.missed.append((self.now, order.job))
                if order.job in self.jobs:
                    self.jobs[order.job].told(order, self.now)
        return self

    def result(self, job: str, dataset: str = "data") -> ProbeResult:
        return self.schedule.results[job, dataset]


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize(
    ("store", "benefit"), [(2e4, 5.0), (5e4, 2.0), (9e4, 1.0 / 0.9)], ids=["bound", "between", "nearly"]
)
def test_the_benefit_is_the_true_one(store: float, benefit: float, noise: float) -> None:
    job = SimJob("a", store=store, noise=noise, expected_bytes=LONG, rng=random.Random(1))
    true = benefit if not noise else benefit / 1.046  # the store's mean, not its median, is what counts
    result = Run(job).until(400).result("a")
    assert result.benefit.value == pytest.approx(true, rel=0.1)
    assert result.benefit.low <= result.benefit.value <= result.benefit.high
    assert result.basis == "hit"
    assert not result.caching_is_wasted or benefit < 1.2


def test_the_buffer_does_not_hide_that_the_store_is_slow() -> None:
    """As large as all that is counted: what lies in it has come from the cache."""
    job = SimJob("a", buffer_bytes=200_000, expected_bytes=LONG)
    assert Run(job).until(400).result("a").benefit.value == pytest.approx(5.0, rel=0.1)


def test_who_computes_more_than_he_waits_gains_nothing() -> None:
    job = SimJob("a", compute=1e4, expected_bytes=LONG)
    result = Run(job).until(400).result("a")
    assert result.caching_is_wasted
    assert result.benefit.value == pytest.approx(1.0, rel=0.02)


def test_one_whose_data_set_is_not_cached_is_measured_by_what_it_would_do() -> None:
    job = SimJob("a", store=4e4, resident=0.0)
    run = Run(job).until(700)
    result = run.result("a")
    assert result.basis == "ideal"
    assert result.benefit.value == pytest.approx(2.5, rel=0.1)
    assert result.extra_store_bytes == 0


def test_one_whose_chunks_are_loaded_just_ahead_of_it_is_measured_as_it_reads() -> None:
    """All that it reads is a hit, and none of it any faster than the store: to miss would read everything twice."""
    job = SimJob("a", store=4e4, ahead=True, floor=9e4)
    run = Run(job).until(700)
    result = run.result("a")
    assert not run.missed
    assert result.basis == "ideal", "hits that come at the store's pace say nothing of a cache"
    assert result.benefit.value == pytest.approx(2.5, rel=0.1)
    job.store, run.store = 2e4, StoreLoad(s_per_byte=2e-6)
    run.until(1400)
    assert run.result("a").benefit.value == pytest.approx(5.0, rel=0.1)
    assert not run.missed
    assert job.extra == 0


def test_one_that_is_given_room_while_it_is_measured_without_is_measured_again() -> None:
    job = SimJob("a", store=4e4, ahead=True, expected_bytes=LONG)
    run = Run(job).until(5)
    assert run.schedule.under_way
    job.ahead = False
    run.until(7)
    assert "given room" in run.schedule.waits_for("a", "data")
    run.until(400)
    assert run.result("a").basis == "hit"
    assert run.result("a").benefit.value == pytest.approx(2.5, rel=0.1)


def test_one_whose_room_is_taken_away_while_it_misses_need_not_go_on_with_that() -> None:
    job = SimJob("a", store=4e4, expected_bytes=LONG)
    run = Run(job).until(5)
    assert job.missing
    job.ahead = True
    run.until(7)
    extra = job.extra
    assert not job.missing
    run.until(700)
    assert run.result("a").basis == "ideal"
    assert run.result("a").benefit.value == pytest.approx(2.5, rel=0.1)
    assert job.extra == extra


def test_hits_count_from_when_there_is_room() -> None:
    job = SimJob("a", store=4e4, ahead=True)
    run = Run(job).until(100)
    assert run.schedule.under_way
    job.ahead = False
    run.until(250)
    assert run.result("a").basis == "hit"
    assert run.result("a").benefit.value == pytest.approx(2.5, rel=0.1)
    assert job.extra == 0


@pytest.mark.slow
def test_those_that_need_not_miss_take_nobodys_place() -> None:
    """They wait for minutes for room to hit, which in a full cluster does not come."""
    ahead = [SimJob(f"j{at}", f"data{at // 2}", store=4e4, ahead=True) for at in range(20)]
    run = Run(*ahead, SimJob("misses", "own", expected_bytes=LONG)).until(60)
    assert run.result("misses", "own").basis == "hit"
    run.until(400)
    assert len(run.schedule.results) == 21, "and not each other's, though two read the same data set"
    assert [job for _, job in run.missed] == ["misses"]
    many = Run(*ahead, schedule=ProbeSchedule(ProbeLimits(ahead_at_once=3))).until(60)
    assert len(many.schedule.under_way) == 3


def test_one_at_a_time_of_a_data_set() -> None:
    run = Run(*(SimJob(name, expected_bytes=LONG) for name in "abc"), SimJob("d", "other", expected_bytes=LONG))
    run.until(1)
    assert [job for _, job in run.missed] == ["a", "d"]
    run.until(400)
    assert {job for _, job in run.missed} == set("abcd")


def test_missing_waits_until_the_job_has_read_enough_to_pay_for_it() -> None:
    job = SimJob("a", expected_bytes=0)
    run = Run(job).until(30)
    assert not run.missed
    assert "read from the store by now" in run.schedule.waits_for("a", "data")
    run.until(600)
    assert run.missed
    assert job.extra <= 0.02 * job.delivered
    run.until(1000)
    assert job.extra <= 0.02 * job.delivered
    assert run.result("a").benefit.value == pytest.approx(5.0, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("store", [2e4, 2e5, 2e6], ids=["waits", "computes", "the store is fast"])
def test_who_begins_to_miss_can_pay_for_it_to_the_end(store: float) -> None:
    """However little more than nothing it may cost: what is spent before enough was measured was spent for nothing."""
    for expected_bytes in range(0, 100_000_000, 5_000_000):
        job = SimJob("a", store=store, expected_bytes=expected_bytes, rng=random.Random(expected_bytes))
        run = Run(job)
        while not run.missed:
            run.until(run.now + 10)
        run.until(run.now + 60)
        assert "was spent" not in run.schedule.waits_for("a", "data"), expected_bytes


def test_again_after_a_while_and_when_the_store_is_another_one() -> None:
    job = SimJob("a", expected_bytes=LONG)
    run = Run(job).until(500)
    assert len(run.missed) == 1
    job.store = 1e4
    run.store = StoreLoad(s_per_byte=2e-6)
    run.until(900)
    assert len(run.missed) == 2
    assert run.result("a").benefit.value == pytest.approx(10.0, rel=0.1)
    run.until(2300)
    assert len(run.missed) == 2
    run.until(2700)
    assert len(run.missed) == 3


def test_a_store_that_changes_in_mid_probe_is_another_than_was_measured() -> None:
    job = SimJob("a", expected_bytes=LONG)
    run = Run(job).until(8)
    assert job.missing
    job.store, run.store = 1e4, StoreLoad(s_per_byte=2e-6)
    run.until(900)
    assert len(run.missed) == 2
    assert run.result("a").benefit.value == pytest.approx(10.0, rel=0.1)


def test_who_asks_for_more_at_once_is_not_probed_again_for_it() -> None:
    """As the others do while one misses: each waits longer, and all together are given as much, or more."""
    job = SimJob("a", expected_bytes=LONG)
    run = Run(job)
    for seconds in range(10, 1700, 10):
        at_once = 1 + seconds % 16
        run.store = StoreLoad(1e-6 / min(at_once, 4), None, 1e-6 * max(at_once / 4, 1))
        run.until(seconds)
    assert len(run.missed) == 1


@pytest.mark.slow
def test_a_store_that_is_never_the_same_is_not_probed_beyond_what_that_may_cost() -> None:
    job, rng = SimJob("a"), random.Random(4)
    run = Run(job)
    for seconds in range(1, 6000):
        run.store = StoreLoad(1e-6 * rng.lognormvariate(0.0, 1.0))
        run.until(seconds)
        assert job.extra <= 0.02 * job.delivered
    assert len(run.missed) > 2


def test_whoever_computes_is_not_below_its_floor() -> None:
    """It reads less than it might, and does not wait for it."""
    computes = SimJob("b", "other", compute=1e4, floor=5e4, expected_bytes=LONG)
    run = Run(SimJob("a", expected_bytes=LONG), computes).until(2)
    assert [job for _, job in run.missed] == ["a", "b"]
    assert run.until(400).result("b", "other").caching_is_wasted


def test_not_below_a_floor() -> None:
    """The job's own is found out; a neighbour's ends the probe, and keeps others from beginning."""
    own = SimJob("a", floor=5e4, expected_bytes=LONG)
    run = Run(own).until(60)
    assert run.missed
    assert not own.missing
    assert "floor" in run.schedule.waits_for("a", "data")
    assert not run.schedule.results
    probed = SimJob("a", expected_bytes=LONG)
    neighbour = SimJob("b", "other", floor=5e4, expected_bytes=LONG)
    run = Run(probed, neighbour, schedule=ProbeSchedule(ProbeLimits(at_once=1))).until(2)
    assert probed.missing
    neighbour.cache = 4e4
    run.until(4)
    assert not probed.missing
    assert len(run.missed) == 1


def test_not_where_the_store_has_too_little_left() -> None:
    for floor, neighbours_floor, spare, begins in [
        (3e4, 0.0, 2e4, False), (1e4, 0.0, 2e4, True),
        (0.0, 0.0, 0.0, True), (0.0, 1e3, 5e4, False), (0.0, 1e3, 2e5, True),
    ]:  # fmt: skip
        probed = SimJob("a", floor=floor, expected_bytes=LONG)
        run = Run(probed, SimJob("b", "other", floor=neighbours_floor))
        run.store = StoreLoad(1e-6, spare)
        run.until(2)
        assert ("a" in [job for _, job in run.missed]) == begins, (floor, neighbours_floor, spare)


def test_a_job_that_ends_or_changes_its_data_set_is_normal_at_once() -> None:
    job = SimJob("a", expected_bytes=LONG)
    run = Run(job).until(2)
    assert job.missing
    job.dataset = "another"
    run.until(3)
    assert ("a", "data") not in run.schedule.under_way
    orders = run.schedule.tick(run.now, [], StoreLoad())
    assert [(order.dataset, order.miss) for order in orders] == [("another", False)]
    assert not run.schedule.under_way


def test_a_new_coordinator_sends_everybody_back_and_keeps_what_was_known() -> None:
    job = SimJob("a", expected_bytes=LONG)
    run = Run(job).until(2)
    assert job.missing
    run.schedule = ProbeSchedule()
    orders = run.schedule.tick(run.now, [job.measurement()], run.store)
    assert next(order.miss for order in orders if order.job == "a") is False
    done = Run(SimJob("a", expected_bytes=LONG)).until(400)
    done.schedule = ProbeSchedule(results=done.schedule.results.values())
    done.missed.clear()
    done.until(600)
    assert not done.missed


def test_a_job_that_falls_silent_is_normal_when_the_time_is_over() -> None:
    job = SimJob("a", expected_bytes=LONG)
    run = Run(job).until(2)
    job.silent = True
    run.until(290)
    assert run.schedule.under_way
    run.until(303)
    assert not job.missing
    assert not run.schedule.under_way


def test_a_clock_that_jumps_ends_probes_and_one_that_goes_back_stands_still() -> None:
    job = SimJob("a", expected_bytes=LONG)
    run = Run(job).until(3)
    orders = run.schedule.tick(1e9, [job.measurement()], run.store)
    assert [order.miss for order in orders] == [False]
    assert not run.schedule.under_way
    assert run.schedule.tick(5.0, [job.measurement()], run.store) == []


def test_who_does_not_want_the_cache_is_left_alone() -> None:
    job = SimJob("a", expected_bytes=LONG)
    job.run(1.0, 0.0)
    schedule = ProbeSchedule()
    asked = dataclasses.replace(job.measurement(), wants_cache=False)
    assert [order.miss for order in schedule.tick(1.0, [asked], StoreLoad())] == [False]
    assert schedule.tick(2.0, [asked], StoreLoad()) == []


class Looked(JobMeasurement):
    """Counts how often anything of it is looked at."""

    looks: ClassVar[int] = 0

    def __getattribute__(self, name: str) -> Any:
        type(self).looks += 1
        return super().__getattribute__(name)


def test_a_thousand_jobs_are_not_compared_each_with_all_others() -> None:
    schedule, store = ProbeSchedule(), StoreLoad(spare_bytes_per_s=0.0)
    totals = Counters(records=1000, size_bytes=10**9, elapsed_s=10.0, reader_s=10.0, hit_bytes=10**9)
    jobs = [Looked(f"job{at}", f"data{at}", totals, bytes_per_s=1e8, stall_share=0.5) for at in range(1000)]
    schedule.tick(1.0, jobs, store)
    Looked.looks = 0
    assert not schedule.tick(2.0, jobs, store)
    assert Looked.looks < 100 * len(jobs)


def test_a_tick_comes_in_parts_between_which_others_are_served() -> None:
    totals = Counters(records=1000, size_bytes=10**9, elapsed_s=10.0, reader_s=10.0, hit_bytes=10**9)
    jobs = [JobMeasurement(f"job{at}", f"data{at % 50}", totals, expected_bytes=10**12) for at in range(1000)]
    whole, parts = ProbeSchedule(), ProbeSchedule()
    for now in (1.0, 2.0, 3.0):
        told = list(parts.ticking(now, jobs, StoreLoad()))
        assert [order for orders in told for order in orders] == whole.tick(now, jobs, StoreLoad())
        assert len(told) > 4
    assert parts.under_way.keys() == whole.under_way.keys() != set()
