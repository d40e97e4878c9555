"""Any order of events: one probe of a data set at a time, within the budget, never below a floor, and nobody misses for
ever."""

from __future__ import annotations

import random

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.probing_world import SimJob
from tfquiver.service.coordinator.measuring_jobs_and_stores.store_load import StoreLoad
from tfquiver.service.coordinator.probing.limits import ProbeLimits
from tfquiver.service.coordinator.probing.schedule import ProbeSchedule

LIMITS = ProbeLimits(least_batches=20, most_batches=200, phase_s=60.0, repeat_s=300.0, gap_s=10.0, at_once=2)
RATES = st.floats(1e3, 2e5)
PICK = st.integers(0, 1 << 30)


class ProbeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.schedule = ProbeSchedule(LIMITS)
        self.jobs: dict[str, SimJob] = {}
        self.now = self.told_until = 0.0
        self.misses_since: dict[tuple[str, str], float] = {}  # as ordered
        self.unheard_of: set[tuple[str, str]] = set()  # missed, and a new coordinator has not heard of them yet
        self.names = 0
        self.store = StoreLoad(1e-6)

    def pick(self, number: int) -> SimJob:
        return list(self.jobs.values())[number % len(self.jobs)]

    @precondition(lambda self: len(self.jobs) < 5)
    @rule(
        compute=RATES, store=RATES, resident=st.sampled_from([0.0, 0.5, 1.0]), buffer=st.integers(0, 100_000),
        floor=st.sampled_from([0.0, 0.0, 5e3, 1e5]), known=st.booleans(), noise=st.sampled_from([0.0, 0.5]),
        dataset=st.sampled_from("xy"),
    )  # fmt: skip
    def a_job_comes(
        self, compute: float, store: float, resident: float, buffer: int, floor: float, known: bool, noise: float,
        dataset: str,
    ) -> None:  # fmt: skip
        self.names += 1
        name = f"job{self.names}"
        self.jobs[name] = SimJob(
            name, dataset, compute, store, 1e6, resident, buffer, floor, noise,
            expected_bytes=50_000_000 if known else 0, rng=random.Random(self.names),
        )  # fmt: skip

    @precondition(lambda self: self.jobs)
    @rule(number=PICK, what=st.sampled_from(["ends", "another data set", "silent", "speaks", "deaf"]))
    def something_happens_to(self, number: int, what: str) -> None:
        job = self.pick(number)
        if what in ("ends", "another data set") and (job.name, job.dataset) in self.unheard_of:
            del self.misses_since[job.name, job.dataset]  # its nodes give that up themselves
        if what == "ends":
            del self.jobs[job.name]
            self.tick()
        elif what == "another data set":
            job.dataset = "y" if job.dataset == "x" else "x"
            self.tick()
        elif what == "deaf":
            job.obeys = False
        else:
            job.silent = what == "silent"

    @precondition(lambda self: self.jobs)
    @rule(number=PICK, resident=st.sampled_from([0.0, 0.5, 1.0]), load=st.sampled_from([5e-7, 1e-6, 2e-6]))
    def the_cache_or_the_store_is_another(self, number: int, resident: float, load: float) -> None:
        self.pick(number).resident = resident
        self.store = StoreLoad(load)

    @rule()
    def the_coordinator_starts_again(self) -> None:
        self.schedule = ProbeSchedule(LIMITS, self.schedule.results.values())
        self.unheard_of = set(self.misses_since)

    @rule(jump=st.sampled_from([-1e6, -5.0, 0.0, 100.0, 1e6]))
    def the_clock_jumps(self, jump: float) -> None:
        """Of the coordinator alone."""
        self.now += jump
        self.tick()

    @rule(seconds=st.integers(1, 90))
    def time_goes_by(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            for job in self.jobs.values():
                job.run(1.0, self.now)
            self.tick()

    def tick(self) -> None:
        told = [job.measurement() for job in self.jobs.values()]
        starving = any(one.starves for one in told)
        began = {}
        for order in self.schedule.tick(self.now, told, self.store):
            key = (order.job, order.dataset)
            if order.miss:
                assert not starving, "nobody begins to miss while somebody starves"
                began[key] = order
            else:
                self.misses_since.pop(key, None)
            if order.job in self.jobs:
                self.jobs[order.job].told(order, self.now)
        self.unheard_of.clear()
        latest = max(self.now, self.told_until)
        for key, order in began.items():
            allowed = max(self.jobs[key[0]].expected_bytes, self.jobs[key[0]].delivered) * LIMITS.extra_share
            assert order.most_extra_bytes + self.jobs[key[0]].extra <= allowed + 2
            self.misses_since[key] = latest
        self.told_until = latest
        for key, since in self.misses_since.items():
            assert latest - since < LIMITS.phase_s, f"{key} still misses"
            assert not starving, "a probe goes on while somebody starves"

    @invariant()
    def one_probe_of_a_data_set(self) -> None:
        probes = self.schedule.under_way
        assert len(probes) <= LIMITS.at_once
        assert len({dataset for _, dataset in probes}) == len(probes)

    @invariant()
    def who_misses_is_being_probed(self) -> None:
        for key, probe in self.schedule.under_way.items():
            assert probe.missing == (key in self.misses_since)

    @invariant()
    def missing_costs_what_it_may(self) -> None:
        for job in self.jobs.values():
            assert job.extra <= LIMITS.extra_share * max(job.expected_bytes, job.delivered) + 2

    @invariant()
    def results_make_sense(self) -> None:
        for result in self.schedule.results.values():
            assert 0 < result.benefit.low <= result.benefit.value <= result.benefit.high
            assert result.miss_bytes_per_s > 0
            assert result.extra_store_bytes >= 0


TestProbeMachine = ProbeMachine.TestCase
TestProbeMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
