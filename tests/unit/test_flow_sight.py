"""In a simulation policies can be shown what a running coordinator would have measured, and no more."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from tfquiver.service.coordinator.job_schedulers.fifo import Fifo
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import GONE_S
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan
from tfquiver.service.sim.cache_contents.contents import UNIFORM, Contents
from tfquiver.service.sim.job_queue_rates_store_bandwidth.outcome import Outcome
from tfquiver.service.sim.job_queue_rates_store_bandwidth.simulation import simulate
from tfquiver.service.sim.probing_and_policies.shipping import Shipping
from tfquiver.service.sim.probing_and_policies.sight import SIGHTS, two_chunks_bytes
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, Pacing, SimJob, Stored, Workload

SIZE, EPOCH_S = 1_000_000, 100.0
SPEED = SIZE / EPOCH_S


@dataclass
class Watching:
    """Keeps of each data set that is read what there is room for, and what it was shown."""

    views: dict[float, ClusterView] = field(default_factory=dict)

    def plan(self, view: ClusterView, now: float) -> Plan:
        self.views[now] = view
        share = view.cache_bytes // max(1, len(view.datasets))
        return Plan({one.name: Allocation("uniform", min(share, one.size_bytes)) for one in view.datasets})

    def rates(self, name: str) -> dict[float, float | None]:
        return {at: job.ideal_bytes_per_s for at, view in self.views.items() for job in view.jobs if job.name == name}


def job(name: str, dataset: str = "data", epochs: float = 1.0, submit_s: float = 0.0) -> SimJob:
    return SimJob(name, dataset, SPEED, epochs * SIZE, 1, submit_s)


def measured(policy: Watching, jobs: tuple[SimJob, ...], store: float, cache: int = SIZE, **more: Stored) -> Outcome:
    sizes = {one.dataset: SIZE for one in jobs}
    # Small records: a probe, of 100 mini-batches, is over after ten seconds.
    stored = dict.fromkeys(sizes, Stored(SIZE, 500, 100_000)) | more
    workload = Workload(sizes, jobs, stored)
    return simulate(workload, Cluster(9, cache, store), policy, Fifo(), replan_s=10.0, sight=SIGHTS["measured"])


def test_a_job_that_does_not_wait_is_known_once_it_reads() -> None:
    policy = Watching()
    measured(policy, (job("a"),), 2 * SPEED)
    rates = policy.rates("a")
    assert rates[0.0] is None
    assert rates[10.0] == pytest.approx(SPEED)


def test_one_that_only_waits_is_taken_for_ten_times_as_fast() -> None:
    policy = Watching()
    measured(policy, (job("a", epochs=2.0),), SPEED / 4)
    rates = policy.rates("a")
    assert rates[10.0] == pytest.approx(SPEED / 4 * 10)
    assert rates[max(rates)] == pytest.approx(SPEED), "in its second epoch it had all from the cache"


def test_who_has_ended_is_seen_for_a_while() -> None:
    policy = Watching()
    measured(policy, (job("a"), job("b", "other", 3.0)), 9 * SPEED)
    last_s = max(at for at, view in policy.views.items() if any(one.name == "a" for one in view.jobs))
    assert EPOCH_S + GONE_S - 10 <= last_s < EPOCH_S + GONE_S
    first_s = min(at for at, view in policy.views.items() if at and len(view.datasets) == 1)
    assert first_s == pytest.approx(EPOCH_S + GONE_S), "and planned for as soon as it is not"
    assert all(view.remote_bytes_per_s is None for view in policy.views.values())


@pytest.mark.slow
def test_what_nobody_reads_stays_until_others_need_the_room() -> None:
    """The second comes when nobody has read the first's data set for a while, and finds it."""
    jobs = job("a"), job("b", "other", 4.0), job("c", submit_s=200.0)
    outcome = measured(Watching(), jobs, 9 * SPEED, 2 * SIZE)
    assert outcome.store_bytes == pytest.approx(2.2 * SIZE, rel=0.03), "once each, but for what was probed"
    outcome = measured(Watching(), jobs, 9 * SPEED, SIZE)
    assert outcome.store_bytes > 2.5 * SIZE, "with half the room the other one has filled it"


def test_what_nobody_reads_makes_way_as_others_fill_not_only_when_these_are_given_room() -> None:
    contents = Contents(np.array([100.0, 100.0]), 2, cache_bytes=100.0)
    left, filling = np.array([0]), np.array([1])
    contents.resident[:], contents.effective[:] = (100.0, 0.0), (1.0, 0.0)
    contents.apply(filling, np.array([UNIFORM]), np.array([100]), np.array([0, 1]), spare_bytes=100.0)
    assert contents.resident.tolist() == [100.0, 0.0]
    contents.advance(filling, filling, np.array([40.0]), False, left[:0], left[:0])
    assert contents.resident.tolist() == [60.0, 40.0]
    assert contents.effective.tolist() == [0.6, 0.0], "who comes back finds no more than there is"


def test_a_policy_is_not_asked_again_while_what_it_is_shown_is_the_same() -> None:
    policy = Watching()
    outcome = measured(policy, (job("a", epochs=20.0),), 2 * SPEED)
    assert outcome.plans > 190
    assert len(policy.views) < 60, "while it is probed, and while its data set fills"


def test_room_is_counted_as_it_is_on_the_disks() -> None:
    """Records that take twice as much there: half of them fit."""
    stored = {"data": Stored(2 * SIZE, 500, 100_000)}
    outcome = measured(Watching(), (job("a", epochs=3.0),), 9 * SPEED, SIZE, **stored)
    assert outcome.store_bytes == pytest.approx((1 + 0.5 + 0.5) * SIZE, rel=0.02)


def test_the_shipping_policy_decides_as_soon_as_a_job_begins() -> None:
    policy = Shipping("benefit")
    workload = Workload({"data": SIZE}, (job("a", submit_s=5.0),))
    simulate(workload, Cluster(1, SIZE), policy, Fifo(), replan_s=10.0, sight=SIGHTS["measured"])
    (decision,) = [one for one in policy.decisions if one.kind == "dataset"]
    assert (decision.at_s, decision.becomes) == (5.0, Allocation("uniform", SIZE))


@pytest.mark.slow
@pytest.mark.parametrize("sight", ["measured", "all"])
def test_a_move_that_pays_is_made_when_it_was_confirmed_though_nothing_else_changes(sight: str) -> None:
    """The second job comes when the first one's data set is whole, and reads nine times as fast."""
    policy, size = Shipping("benefit"), 10**11
    workload = Workload(
        {"first": size, "second": size},
        (SimJob("a", "first", 1e8, 864 * size / 10), SimJob("b", "second", 9e8, 400 * size, submit_s=20_000.0)),
    )
    simulate(workload, Cluster(2, size, 2e9), policy, Fifo(), replan_s=60.0, sight=SIGHTS[sight])
    moved = next(one for one in policy.decisions if one.name == "second" and one.kind == "dataset")
    assert (moved.becomes, moved.rule) == (Allocation("uniform", size), "pays for its moves")
    assert 20_000.0 < moved.at_s < 21_000.0


def test_two_chunks_are_as_large_as_the_rotation_makes_them() -> None:
    assert two_chunks_bytes(160 << 30, None) == pytest.approx(2.2 * (160 << 30) / 4096, rel=0.01)
    assert two_chunks_bytes(4000, 40) == 220


def test_a_new_job_is_probed_and_keeps_nothing_meanwhile() -> None:
    """By the coordinator's own schedule: 100 mini-batches that miss, here 0.32 of the data set."""
    stored = {"data": Stored(SIZE, 500, 10_000)}
    policy = Watching()
    outcome = measured(policy, (job("a", epochs=3.0),), 2 * SPEED, SIZE, **stored)
    assert outcome.store_bytes == pytest.approx(1.34 * SIZE, rel=0.02)
    last = policy.views[max(policy.views)].jobs[0]
    assert last.hit_bytes_per_s == pytest.approx(SPEED, rel=0.01)
    assert last.miss_bytes_per_s == pytest.approx(SPEED, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("disk_bytes", [1_048_577, 1_062_501, 1_000_003])
def test_all_of_a_data_set_is_no_more_than_all_also_when_rounded(disk_bytes: int) -> None:
    """Two jobs that fill it together: what is left of it is never negative."""
    stored = {"data": Stored(disk_bytes, 7, 100_000)}
    outcome = measured(
        Watching(), (job("a", epochs=3.0), job("b", epochs=3.0, submit_s=30.0)), SPEED, 2 * SIZE, **stored
    )
    assert outcome.store_bytes >= SIZE


@pytest.mark.slow
def test_an_irregular_job_is_known_as_one_and_is_not_probed() -> None:
    """As by a coordinator: such jobs share a part of their own, and what they gain says nothing of an epoch."""
    policy = Watching()
    outcome = measured(
        policy, (job("a", epochs=3.0), replace(job("b", "other", 3.0), pacing=Pacing(0.5, 2.0, SIZE / 2))), SPEED
    )
    told = {(one.name, one.irregular) for view in policy.views.values() for one in view.jobs}
    assert told == {("a", False), ("b", True)}
    assert any(one.hit_bytes_per_s for view in policy.views.values() for one in view.jobs if one.name == "a")
    assert not any(one.hit_bytes_per_s for view in policy.views.values() for one in view.jobs if one.name == "b")
    assert outcome.read_bytes == pytest.approx(6 * SIZE)
