"""What must hold of any simulation: bytes are conserved, limits held, nobody is faster than it can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import exp, inf, log

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.flow_world import EPOCH_S, SIZE, SPEED, Fixed, one_data_set
from tfquiver import errors
from tfquiver.service.coordinator.job_schedulers import registry as schedulers
from tfquiver.service.coordinator.job_schedulers.fifo import Fifo
from tfquiver.service.coordinator.policies import registry as policies
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView, Plan
from tfquiver.service.sim.job_queue_rates_store_bandwidth.outcome import YEAR_S, bound
from tfquiver.service.sim.job_queue_rates_store_bandwidth.simulation import simulate
from tfquiver.service.sim.probing_and_policies.sight import SIGHTS
from tfquiver.service.sim.shard_by_shard.engine import Engine
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, Pacing, SimJob, Workload

ROUNDING = 1e-6
AGAIN_JOBS = 3
FOLLOWED = 1e-4  # what an LRU cache holds of a curriculum's samples, whose rates are followed in steps


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Workload, Cluster]:
    datasets = {f"set {n}": draw(st.integers(10**5, 10**7)) for n in range(draw(st.integers(1, 4)))}
    jobs = []
    for number in range(draw(st.integers(1, 7))):
        dataset = draw(st.sampled_from(sorted(datasets)))
        pacing = Pacing(0.1, 1.5, datasets[dataset] / 4) if draw(st.integers(0, 5)) == 5 else None
        total = datasets[dataset] * draw(st.floats(0.2, 6.0))
        speed, submit_s = draw(st.floats(100.0, 20000.0)), draw(st.floats(0.0, 5000.0))
        jobs.append(SimJob(f"job {number}", dataset, speed, total, draw(st.integers(1, 4)), submit_s, pacing))
    remote = draw(st.one_of(st.just(inf), st.floats(500.0, 50000.0)))
    cache_bytes = draw(st.integers(0, 2 * sum(datasets.values())))
    return Workload(datasets, tuple(jobs)), Cluster(draw(st.integers(4, 8)), cache_bytes, remote)


# A part that grew was once taken to have been sampled from all along: what nobody had read was in the cache.
GROWING = (
    Workload(
        {"a": 10**5},
        (
            SimJob("curriculum", "a", 100.0, 1.5e5, pacing=Pacing(0.1, 1.5, 25000.0)),
            SimJob("all of it", "a", 100.0, 1e5, submit_s=1500.0),
        ),
    ),
    Cluster(4, 10**5, inf),
)

# Both read one data set in turn, and what each had brought in itself was once taken to lie before it.
IN_TURN = (
    Workload(
        {"a": 10**6, "b": 3 * 10**6},
        (
            SimJob("a 1", "a", 100.0, 1e6),
            SimJob("b", "b", 100.0, 3e6, submit_s=1.0),
            SimJob("a 2", "a", 100.0, 1e6, 3, submit_s=2.0),
        ),
    ),
    Cluster(4, 10**6, inf),
)


@pytest.mark.slow
@pytest.mark.long
@settings(max_examples=25)
@example(GROWING, "lru", "fifo")
@example(IN_TURN, "benefit", "gavel")
@given(worlds(), st.sampled_from(policies.names()), st.sampled_from(schedulers.names()))
def test_whatever_is_simulated(world: tuple[Workload, Cluster], policy: str, scheduler: str) -> None:
    workload, cluster = world
    made = simulate(workload, cluster, policies.make(policy), schedulers.make(scheduler))
    total = sum(job.total_bytes for job in workload.jobs)
    assert made.read_bytes == pytest.approx(total, rel=ROUNDING), "every job has read what it came for, and no more"
    assert made.store_bytes <= made.read_bytes * (1 + ROUNDING)
    least = bound(workload, cluster)
    stepped = FOLLOWED if policy == "lru" and any(job.pacing for job in workload.jobs) else ROUNDING
    assert made.store_bytes >= least.store_bytes * (1 - stepped), "what was never read before is in no cache"
    assert made.average_jct_s >= least.average_jct_s * (1 - ROUNDING)
    assert made.makespan_s >= least.makespan_s * (1 - ROUNDING)
    for job, jct_s in zip(workload.jobs, made.jct_s, strict=True):
        assert jct_s >= job.total_bytes / job.ideal_bytes_per_s * (1 - ROUNDING), "faster than without any wait"
    for sample in made.samples:
        assert sample.store_bytes_per_s <= cluster.remote_bytes_per_s * (1 + ROUNDING)
        assert sample.read_bytes_per_s <= sample.ideal_bytes_per_s * (1 + ROUNDING)
        assert sample.resident_bytes <= cluster.cache_bytes * (1 + ROUNDING)
    if len(workload.jobs) <= AGAIN_JOBS:  # of more it takes seconds
        again = simulate(workload, cluster, policies.make(policy), schedulers.make(scheduler))
        assert repr(again) == repr(made), "the same of the same; of nan, too"


def test_jobs_that_take_turns_find_what_the_other_has_brought_meanwhile_and_no_more() -> None:
    made = simulate(*IN_TURN, policies.make("benefit"), schedulers.make("gavel"))
    assert made.store_bytes == pytest.approx(4e6, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["uniform", "cooperative", "lru"])
@pytest.mark.parametrize("jobs", [1, 3])
def test_more_cache_is_never_worse(mode: str, jobs: int) -> None:
    made = [one_data_set(jobs, mode, share / 8, 4, 0.5) for share in range(1, 9)]  # type: ignore[arg-type]
    for less, more in pairwise(made):
        assert more.makespan_s <= less.makespan_s * (1 + 1e-3)
        assert more.store_bytes <= less.store_bytes * (1 + 1e-3)
    assert made[-1].store_bytes < made[0].store_bytes / 2


def test_what_came_in_this_epoch_counts_from_the_next() -> None:
    """SiloD section 6: of a job's first epoch nothing is a hit, of each other one just what had room."""
    for epochs, loads in ((1, 1.0), (2, 1.7), (4, 3.1)):
        assert one_data_set(1, "uniform", 0.3, epochs, 0.5).store_bytes == pytest.approx(loads * SIZE)


def test_a_second_job_finds_what_the_first_has_brought_meanwhile() -> None:
    """In step, each brings in the half of what is not there: 1 - effective falls as the root of what is absent."""
    made = one_data_set(2, "uniform", 1.0, 1)
    assert made.store_bytes == pytest.approx(SIZE, rel=0.02), "each byte once for both"


@pytest.mark.slow
def test_lru_of_one_job_keeps_little_of_what_it_will_need() -> None:
    """Of an epoch's first part p < c the last (c - p) / (1 - p) of the former epoch is there: c + (1 - c) ln(1 - c)."""
    for share in (0.2, 0.5, 0.8):
        two, six = (one_data_set(1, "lru", share, epochs).store_bytes for epochs in (2, 6))
        hits = 1 - (six - two) / 4 / SIZE
        assert hits == pytest.approx(share + (1 - share) * log(1 - share), rel=0.03, abs=0.001)


@pytest.mark.slow
@pytest.mark.parametrize("sight", SIGHTS)
def test_lru_with_room_for_all_is_filled_in_the_first_epoch(sight: str) -> None:
    job = SimJob("job", "data", SPEED, 3 * SIZE)
    cluster = Cluster(1, 2 * SIZE, SPEED / 2)
    policy = Fixed({"data": Allocation("lru", 2 * SIZE)})
    made = simulate(Workload({"data": SIZE}, (job,)), cluster, policy, Fifo(), sight=SIGHTS[sight])
    assert made.store_bytes == pytest.approx(SIZE, rel=FOLLOWED)
    assert made.jct_s[0] == pytest.approx(4 * EPOCH_S, rel=FOLLOWED)


@pytest.mark.slow
def test_lru_of_samples_with_replacement_keeps_its_share() -> None:
    """No epochs, so no thrashing (SiloD section 7.4): what is in the cache is as likely to come next as what is not."""
    job = SimJob("paced", "data", SPEED, 20 * SIZE, pacing=Pacing(1.0, 1.0, SIZE))
    cluster = Cluster(1, SIZE // 2, inf)
    made = {
        mode: simulate(Workload({"data": SIZE}, (job,)), cluster, Fixed({"data": Allocation(mode, SIZE // 2)}), Fifo())
        for mode in ("lru", "uniform")
    }
    for outcome in made.values():
        assert outcome.store_bytes == pytest.approx((20 + 1 - exp(0) * log(2) - 0.5) / 2 * SIZE, rel=0.03)


def test_jobs_wait_for_accelerators_in_order() -> None:
    jobs = tuple(SimJob(f"job {n}", "data", SPEED, SIZE, 2, 10.0 * n) for n in range(3))
    made = simulate(Workload({"data": SIZE}, jobs), Cluster(2, 0), Fixed({}), Fifo())
    assert made.jct_s == pytest.approx([EPOCH_S, 2 * EPOCH_S - 10, 3 * EPOCH_S - 20])


def test_bandwidth_is_what_the_plan_says_and_the_rest_is_lent() -> None:
    class Allots:
        def plan(self, view: ClusterView, now: float) -> Plan:
            return Plan({}, {job.name: SPEED * (0.6 if job.name == "a" else 0.1) for job in view.jobs})

    jobs = tuple(SimJob(name, name, SPEED, SIZE) for name in "abc")
    made = simulate(Workload(dict.fromkeys("abc", SIZE), jobs), Cluster(3, 0, SPEED), Allots(), Fifo())
    rates = {name: SIZE / jct_s / SPEED for name, jct_s in zip("abc", made.jct_s, strict=True)}
    assert rates["a"] == pytest.approx(0.6 + 0.2 / 3, rel=1e-6)
    assert rates["b"] == rates["c"] < rates["a"]


@pytest.mark.parametrize(
    ("plan", "named"),
    [
        (Plan({"nobody's": Allocation("uniform", 1)}), "nobody's"),
        (Plan({"data": Allocation("uniform", 2 * SIZE)}), "allocations"),
        (Plan({"data": Allocation("uniform", -1)}), "cache_bytes"),
        (Plan({}, {"nobody": 1.0}), "nobody"),
        (Plan({}, {"job": -1.0}), "job"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(plan: Plan, named: str) -> None:
    class Wrong:
        def plan(self, view: ClusterView, now: float) -> Plan:
            return plan

    workload = Workload({"data": SIZE}, (SimJob("job", "data", SPEED, SIZE),))
    with pytest.raises(errors.InvalidArgumentError, match=named):
        simulate(workload, Cluster(1, SIZE), Wrong(), Fifo())


def test_a_faster_store_leaves_the_bound_alone_where_jobs_bind() -> None:
    workload = Workload({"data": SIZE}, tuple(SimJob(f"{n}", "data", SPEED, SIZE, 1, 0.0) for n in range(4)))
    two = Cluster(2, 0, SPEED)
    assert bound(workload, two).average_jct_s == pytest.approx(EPOCH_S * (0.5 + 1 + 1.5 + 2) / 4)
    assert bound(workload, replace(two, remote_bytes_per_s=SPEED / 8)).makespan_s == pytest.approx(8 * EPOCH_S)


@pytest.mark.parametrize("jobs_s", [(1.7e9, 1.7e9 + 100), (1e10, 1e10)])
def test_time_goes_on_where_the_clock_is_coarse(jobs_s: tuple[float, float]) -> None:
    """Who writes down when jobs came in seconds since 1970 has steps that are shorter than it can tell apart."""
    outcome = one_data_set(2, "uniform", 1.0, 3, 0.5, jobs_s)
    from_0 = one_data_set(2, "uniform", 1.0, 3, 0.5, (0.0, jobs_s[1] - jobs_s[0]))
    assert outcome.jct_s == pytest.approx(from_0.jct_s, rel=1e-6)
    assert outcome.read_bytes == pytest.approx(6 * SIZE, rel=1e-9)
    assert outcome.store_bytes == pytest.approx(from_0.store_bytes, rel=1e-3)


def test_a_job_that_takes_less_than_the_clock_can_tell() -> None:
    jobs = SimJob("long", "data", SPEED, SIZE), SimJob("short", "byte", 1e15, 1.0, submit_s=100.0)
    workload, cluster = Workload({"data": SIZE, "byte": 1}, jobs), Cluster(2, 0)
    made = simulate(workload, cluster, Fixed({}), Fifo())
    assert made.read_bytes == pytest.approx(SIZE + 1)
    late = Workload({"byte": 1}, (replace(jobs[1], submit_s=1e10),))
    assert bound(late, cluster).makespan_s == pytest.approx(1e-15)


@pytest.mark.slow
def test_a_curriculum_that_samples_next_to_nothing_ends() -> None:
    pacing = Pacing(1e-6, 1.0, float(SIZE))
    workload = Workload({"data": SIZE}, (SimJob("one", "data", SPEED, SIZE / 8, pacing=pacing),))
    for mode in ("lru", "uniform"):
        made = simulate(workload, Cluster(1, SIZE), Fixed({"data": Allocation(mode, SIZE)}), Fifo())  # type: ignore[arg-type]
        assert made.store_bytes <= SIZE / 1000, "always the same"


def test_steps_too_small_to_be_seen_of_an_epoch_lead_on() -> None:
    pacing = Pacing(0.1, 2.0, 1e-12 * SIZE)
    workload = Workload({"data": SIZE}, (SimJob("fine", "data", SPEED, SIZE, pacing=pacing),))
    assert simulate(workload, Cluster(1, 0, inf), Fixed({}), Fifo()).makespan_s == pytest.approx(EPOCH_S)


def test_who_has_not_ended_after_thirty_years_is_named() -> None:
    """A store that gives each job its first epoch in time, and no more."""
    job = SimJob("slow", "data", SPEED, 1000 * SIZE)
    cluster = Cluster(1, 0, SIZE / YEAR_S)
    with pytest.raises(errors.InvalidArgumentError, match=r"1 of 1 have not ended after 30 years.*cluster.store_per_s"):
        simulate(Workload({"data": SIZE}, (job,)), cluster, Fixed({}), Fifo(), replan_s=YEAR_S)


def test_many_data_sets_that_fill_are_followed_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last bytes of one were once followed as closely as the first of all the others, at ever smaller steps."""
    after, events = Engine.after, list[float]()

    def counted(self: Engine, delay_s: float, action: Callable[[], None]) -> None:
        events.append(delay_s)
        after(self, delay_s, action)

    monkeypatch.setattr(Engine, "after", counted)
    names = [f"set {n}" for n in range(24)]
    jobs = [
        SimJob(f"{name} {k}", name, SPEED, 2 * SIZE, submit_s=7.0 * at) for at, name in enumerate(names) for k in "ab"
    ]
    workload = Workload(dict.fromkeys(names, SIZE), tuple(jobs))
    allocations = Fixed({name: Allocation("uniform", SIZE) for name in names})
    made = simulate(workload, Cluster(len(jobs), 24 * SIZE, 12 * SPEED), allocations, Fifo())
    assert made.store_bytes == pytest.approx(24 * SIZE, rel=0.02)
    assert len(events) < 4000, "not 40 000"
