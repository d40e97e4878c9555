"""Jobs that come, wait for accelerators, read, and leave, as flows: one workload under one policy and scheduler. Pure.

Between two events every rate is constant: a job comes, ends or begins an epoch in which it finds more, a plan or a
round is due. Where rates move all the time (an LRU window, a data set that several jobs fill) they are followed in
steps. All that happens at one moment is decided upon once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, ulp

import numpy as np

from tfquiver import errors
from tfquiver.service.coordinator.job_schedulers.gavel import equal_bytes_per_s
from tfquiver.service.coordinator.job_schedulers.interface import Capacity, Scheduler
from tfquiver.service.coordinator.policies.views_and_plans.interface import Policy
from tfquiver.service.sim.cache_contents.contents import COOPERATIVE, Contents
from tfquiver.service.sim.cache_contents.lru_window import LruWindow
from tfquiver.service.sim.job_queue_rates_store_bandwidth import steps
from tfquiver.service.sim.job_queue_rates_store_bandwidth.jobs import Jobs, Queue
from tfquiver.service.sim.job_queue_rates_store_bandwidth.outcome import MOST_YEARS, YEAR_S, Outcome
from tfquiver.service.sim.job_queue_rates_store_bandwidth.rates import Rates, Store, rates
from tfquiver.service.sim.job_queue_rates_store_bandwidth.samples import Sample, Samples
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Floats, some
from tfquiver.service.sim.job_queue_rates_store_bandwidth.windows import Windows
from tfquiver.service.sim.probing_and_policies.planner import Planner
from tfquiver.service.sim.probing_and_policies.probing import TICK_S, Probing
from tfquiver.service.sim.probing_and_policies.sight import SIGHTS, Sight
from tfquiver.service.sim.shard_by_shard.engine import Engine
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, Workload

_ROUNDING = 1e-9


def simulate(
    workload: Workload,
    cluster: Cluster,
    policy: Policy,
    scheduler: Scheduler,
    *,
    replan_s: float = 600.0,
    least_gap_s: float = 0.0,
    sight: Sight = SIGHTS["all"],
    progress: Callable[[int], None] = lambda _: None,
    look: Callable[[float], None] = lambda _: None,
) -> Outcome:
    """Until the last job has ended.

    Args:
      replan_s: the policy is asked so often, and whenever a job has begun or ended,
      least_gap_s: but not sooner than this after the last time.
      sight: what it is shown; what is measured `replan_s` after the last time, and when a job is seen to have ended.
      progress: told how many jobs have ended.
      look: told after each moment what time it is there; may raise to end it.

    Raises:
      InvalidArgumentError: the policy's plan cannot be; or jobs have not ended after `MOST_YEARS`.
    """
    return _Simulation(workload, cluster, policy, scheduler, replan_s, least_gap_s, sight, progress, look).run()


class _Simulation:
    def __init__(
        self, workload: Workload, cluster: Cluster, policy: Policy, scheduler: Scheduler,
        replan_s: float, least_gap_s: float, sight: Sight, progress: Callable[[int], None],
        look: Callable[[float], None],
    ) -> None:  # fmt: skip
        self._engine, self._cluster, self._progress, self._look = Engine(), cluster, progress, look
        self._replan_s, self._least_gap_s, self._round_s = replan_s, least_gap_s, scheduler.round_s
        self._jobs = jobs = Jobs(workload)
        sizes = np.array(list(workload.datasets.values()), np.float64)
        shared = len(set(jobs.dataset.tolist())) < len(jobs.dataset)
        self._shared = shared
        disk = np.array([workload.disk_bytes(name) for name in workload.datasets], np.float64)
        self._contents = Contents(sizes, len(jobs.all), disk, cluster.cache_bytes)
        self._window = LruWindow(jobs.dataset, jobs.size, [job.pacing for job in jobs.all], len(sizes), shared)
        self._capacity = Capacity(cluster.accelerators, cluster.cache_bytes, cluster.remote_bytes_per_s)
        self._probing = Probing(jobs, np.array([workload.record_bytes(job.dataset) for job in jobs.all], np.float64))
        self._queue = Queue(jobs, scheduler, self._capacity)
        self._planner = Planner(policy, workload, cluster, jobs, self._contents, sight, self._probing)
        self._sight, self._windows = sight, Windows(workload)
        self._rates = Rates(np.zeros(0), np.zeros(0))
        self._settled_at = self._planned_at = -inf
        self._due = self._to_plan = self._to_round = False
        self._looks = 0  # at who is to be probed
        self._flows = 0  # how often rates were made; who waits for an end of older ones, waits in vain
        self._left = len(jobs.all)
        self._read_bytes = self._store_bytes = self._probe_bytes = 0.0
        self._samples = Samples()

    def run(self) -> Outcome:
        jobs = self._jobs.all
        for number, job in enumerate(jobs):
            self._engine.after(job.submit_s, partial(self._submit, number))
        first_s = min(job.submit_s for job in jobs)
        self._engine.after(first_s + self._replan_s, self._replan)
        if self._round_s is not None:
            self._engine.after(first_s, self._next_round)
        if not self._engine.run(self._over, first_s + MOST_YEARS * YEAR_S):
            raise errors.InvalidArgumentError(
                f"jobs: {self._left} of {len(jobs)} have not ended after {MOST_YEARS} years; no more are simulated: "
                "cluster.store_per_s, or their epochs?"
            )
        jct_s = [end - job.submit_s for end, job in zip(self._jobs.ended_s.tolist(), jobs, strict=True)]
        self._sample()
        return Outcome(
            jct_s, self._engine.now - first_s, self._read_bytes, self._store_bytes, self._planner.plans,
            self._samples.kept, self._samples.fairness, self._probe_bytes,
        )  # fmt: skip

    def _over(self) -> bool:
        self._look(self._engine.now)
        return not self._left

    def _submit(self, number: int) -> None:
        self._settle()
        self._queue.submit(number, self._engine.now)
        self._decide_soon()

    def _replan(self) -> None:
        if self._sight.measured:
            left_s = self._planned_at + self._replan_s - self._engine.now
            if left_s > 0:  # it has been asked meanwhile
                self._engine.after(left_s, self._replan)
                return
        self._plan_now()
        self._engine.after(self._replan_s, self._replan)

    def _plan_now(self) -> None:
        self._settle()
        self._to_plan = True
        self._decide_soon()

    def _probe_in(self, seconds: float) -> None:
        """And no more when it was to be before."""
        self._looks += 1
        self._engine.after(seconds, partial(self._probe, self._looks))

    def _probe(self, look: int) -> None:
        if look != self._looks:
            return
        self._settle()
        now = self._engine.now
        # What an irregular job gains from the cache says nothing of an epoch: none is probed.
        regular = self._jobs.running[~self._jobs.irregular[self._jobs.running]].tolist()
        could = {number: self._planner.meters.measured(number, now) for number in regular}
        ideals = {number: one.ideal_bytes_per_s for number, one in could.items() if one is not None}
        changed, measured = self._probing.tick(now, ideals)
        self._to_plan |= measured
        if changed or measured:
            self._decide_soon()
        self._probe_in(self._probing.next_tick_s())

    def _next_round(self) -> None:
        self._settle()
        self._to_round = True
        self._decide_soon()
        assert self._round_s is not None
        self._engine.after(self._round_s, self._next_round)

    def _wake(self, flows: int) -> None:
        if flows == self._flows:
            self._settle()
            self._decide_soon()

    def _decide_soon(self) -> None:
        if not self._due:
            self._due = True
            self._engine.after(0.0, self._decide)

    def _decide(self) -> None:
        self._due = False
        now = self._engine.now
        before = self._jobs.running
        if self._to_round:
            self._queue.round(now)
        self._queue.fill()
        self._to_round = False
        jobs = self._jobs
        begun = before[:0] if jobs.running is before else jobs.without(jobs.running, before)
        first = begun[jobs.done[begun] == 0]  # others go on where they were stopped
        self._contents.begin_epoch(first, jobs.dataset[first])
        self._to_plan |= bool(begun.size)
        if begun.size and self._sight.measured:
            self._probe_in(TICK_S)
        planned = self._to_plan and now >= self._planned_at + self._least_gap_s
        if planned:
            self._to_plan, self._planned_at = False, now
            hits = self._hits()
            self._planner.plan(now, partial(self._rates_now, hits), hits)
        self._rates = self._rates_now(self._hits())
        if planned:
            self._sample()
        self._flows += 1
        wait_s = steps.next_change_s(
            jobs, self._contents, self._window, self._rates, now, self._contents.pool_bytes, self._shared
        )
        if self._to_plan:
            wait_s = min(wait_s, self._planned_at + self._least_gap_s - now)
        if wait_s < inf:
            # At less than the clock can tell apart time would stand still.
            self._engine.after(max(wait_s, 2 * ulp(now)), partial(self._wake, self._flows))

    def _hits(self) -> Floats:
        jobs, contents, running = self._jobs, self._contents, self._jobs.running
        datasets = jobs.of_running.dataset
        lru, count = contents.under_lru(datasets)
        found = self._window.hit_parts(self._settled_at, running, jobs.done, jobs.parts) if count else None
        if found is not None and count == len(lru):
            return found
        hits = contents.effective[running]
        if jobs.some_irregular:
            sampled = np.maximum(jobs.parts[running], 1e-9) * contents.sizes[datasets]
            hits = np.where(jobs.irregular[running], np.minimum(1.0, contents.resident[datasets] / sampled), hits)
        return hits if found is None else np.where(lru, found, hits)

    def _rates_now(self, hits: Floats) -> Rates:
        running, own = self._jobs.running, self._jobs.of_running
        cooperative = self._contents.mode[own.dataset] == COOPERATIVE if self._contents.some_cooperative else None
        if self._sight.measured:  # else nobody is probed
            missing = self._probing.missing[running]
            hits = np.where(missing, 0.0, hits)
            cooperative = None if cooperative is None else cooperative & ~missing
        store = Store(
            self._cluster.remote_bytes_per_s,
            self._planner.promised(running),
            self._windows.weights(running, own.dataset, cooperative),
        )
        return rates(own.ideal, hits, store, own.dataset, cooperative, self._sight.measured)

    def _settle(self) -> None:
        """All that has been read since the last time."""
        now = self._engine.now
        since, passed_s = self._settled_at, now - self._settled_at
        jobs, running, own = self._jobs, self._jobs.running, self._jobs.of_running
        if passed_s <= 0 or not running.size:
            self._settled_at = now
            return
        if self._sight.measured:
            hits = self._hits()
            found = np.where(self._probing.missing[running], 0.0, hits)
            self._planner.meters.read(now - passed_s, now, self._rates.read, found)
            room = self._contents.allocated[own.dataset] / own.size
            self._probing.account(passed_s, self._rates.read * passed_s, hits, np.minimum(1.0, room))
        self._settled_at = now  # what is asked above is as it was
        read, fetched = self._rates.read * passed_s, self._rates.fetched * passed_s
        had = jobs.done[running]
        left = own.total - had
        if some(read > left):  # by what the clock cannot tell
            fetched *= np.minimum(1.0, np.divide(left, read, out=np.ones_like(read), where=read > 0))
            read = np.minimum(read, left)
        self._read_bytes += float(read.sum())
        self._store_bytes += float(fetched.sum())
        jobs.served_s[running] += passed_s
        kept = fetched
        if self._sight.measured:
            kept = np.where(self._probing.missing[running], 0.0, fetched)
            self._probe_bytes += float((fetched - kept).sum())
        paused = jobs.paused
        self._contents.advance(running, own.dataset, kept, self._shared, paused, jobs.dataset[paused])
        done = had + read
        jobs.done[running] = done
        epochs = done / own.size + _ROUNDING
        over = np.floor(epochs) > np.floor(had / own.size + _ROUNDING)
        if some(over):
            ended = running[over]
            # Of these alone: who has just begun an epoch would begin it again and again, where steps are as small.
            exact = running[over & (epochs - np.floor(epochs) < 2 * _ROUNDING)]
            jobs.done[exact] = np.round(jobs.done[exact] / jobs.size[exact]) * jobs.size[exact]
            self._contents.begin_epoch(ended, jobs.dataset[ended])
            self._probing.begin_epoch(ended)
        jobs.pace()
        if self._contents.some_lru:
            self._window.read(now, since, jobs.done, running, self._contents.pool_bytes)
            self._contents.hold(self._window.resident)
        self._end(now)

    def _end(self, now: float) -> None:
        jobs, running = self._jobs, self._jobs.running
        over = jobs.done[running] >= jobs.of_running.total * (1 - _ROUNDING)
        if not some(over):
            return
        ended = running[over]
        jobs.ended_s[ended] = now
        jobs.running = running[~over]
        # Whoever reads on, reads on as before until all is decided anew, at this same moment.
        self._rates = Rates(self._rates.read[~over], self._rates.fetched[~over])
        self._left -= int(ended.size)
        if self._sight.measured:
            self._engine.after(self._sight.gone_s, self._plan_now)
        else:
            self._to_plan = True
        self._progress(len(jobs.all) - self._left)

    def _sample(self) -> None:
        jobs, running = self._jobs, self._jobs.running
        read = self._rates.read
        fairness = float("nan")
        if running.size:
            equal = equal_bytes_per_s(jobs.requests(running), self._capacity, len(running))
            fairness = float((read / equal).min())
        self._samples.add(
            Sample(
                self._engine.now, fairness, float(read.sum()), float(self._rates.fetched.sum()),
                float(jobs.ideal[running].sum()), float(self._contents.resident.sum()), int(running.size),
                len(self._queue),
            )
        )  # fmt: skip
