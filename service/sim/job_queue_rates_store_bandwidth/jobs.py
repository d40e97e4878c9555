"""The jobs of a simulation as columns, and who waits for accelerators. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tfquiver.service.coordinator.job_schedulers.interface import (
    Capacity,
    JobRequests,
    Scheduler,
    choose,
    first_that_fit,
)
from tfquiver.service.sim.job_queue_rates_store_bandwidth.lines import ByKey, BySubmission
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Floats, Ints
from tfquiver.service.sim.workloads_and_recordings.workload import SimJob, Workload


@dataclass(slots=True)
class Running:
    """Columns of those that run; most moments are between two changes of who does."""

    numbers: Ints
    dataset: Ints
    size: Floats
    ideal: Floats
    total: Floats


class Jobs:
    def __init__(self, workload: Workload) -> None:
        self.all: tuple[SimJob, ...] = workload.jobs
        numbers = {name: number for number, name in enumerate(workload.datasets)}
        count = len(self.all)
        self.names = np.array([job.name for job in self.all], np.str_)
        self.submit_s = np.array([job.submit_s for job in self.all], np.float64)
        self.dataset: Ints = np.array([numbers[job.dataset] for job in self.all], np.int64)
        self.size = np.array([workload.datasets[job.dataset] for job in self.all], np.float64)
        self.ideal = np.array([job.ideal_bytes_per_s for job in self.all], np.float64)
        self.total = np.array([job.total_bytes for job in self.all], np.float64)
        self.accelerators = np.array([job.accelerators for job in self.all], np.float64)
        self.done = np.zeros(count)
        self.served_s = np.zeros(count)
        self.ended_s = np.full(count, np.nan)
        self.running: Ints = np.zeros(0, np.int64)
        self._of_running = Running(self.running, self.running, *[np.zeros(0)] * 3)
        self.paused: Ints = np.zeros(0, np.int64)  # begun, and stopped for another one's turn
        self.irregular = np.array([job.pacing is not None for job in self.all], np.bool_)
        self._paced: list[int] = np.flatnonzero(self.irregular).tolist()
        self.some_irregular = bool(self._paced)
        self.parts = np.zeros(count)  # of the data set that an irregular job samples now
        self.pace()

    @property
    def of_running(self) -> Running:
        at = self.running
        if self._of_running.numbers is not at:
            self._of_running = Running(at, self.dataset[at], self.size[at], self.ideal[at], self.total[at])
        return self._of_running

    @property
    def begun(self) -> Ints:
        """Running and paused."""
        begun = np.zeros(len(self.all), np.bool_)
        begun[self.running] = begun[self.paused] = True
        return np.flatnonzero(begun)

    def without(self, numbers: Ints, others: Ints) -> Ints:
        """`numbers`, in their order."""
        kept = np.ones(len(self.all), np.bool_)
        kept[others] = False
        return numbers[kept[numbers]]

    def pace(self) -> None:
        for number in self._paced:
            pacing = self.all[number].pacing
            assert pacing is not None
            self.parts[number] = pacing.part(pacing.step(float(self.done[number])))

    def requests(self, numbers: Ints) -> JobRequests:
        done = self.done[numbers]
        return JobRequests(
            self.names[numbers], self.accelerators[numbers], self.submit_s[numbers], self.size[numbers],
            self.ideal[numbers], self.total[numbers] - done, done, self.served_s[numbers],
        )  # fmt: skip


class Queue:
    """Who waits, in the scheduler's order; starts and stops jobs. The rules are those of `schedulers.interface`."""

    def __init__(self, jobs: Jobs, scheduler: Scheduler, capacity: Capacity) -> None:
        self._jobs, self._scheduler, self._capacity = jobs, scheduler, capacity
        # Who ran when nobody more could begin; None: since then somebody has come, or gone.
        self._stuck: Ints | None = None
        self._waiting: ByKey | BySubmission = BySubmission(jobs) if scheduler.round_s is not None else ByKey(jobs)

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, number: int, now: float) -> None:
        self._stuck = None
        if isinstance(self._waiting, BySubmission):
            self._waiting.add(number)
        else:
            one = self._jobs.requests(np.array([number]))
            self._waiting.add(number, float(self._scheduler.keys(one, self._capacity, 1, now)[0]))

    def fill(self) -> bool:
        """Starts those that come next where accelerators are free; whether it has."""
        jobs = self._jobs
        if self._stuck is jobs.running or not self._waiting:
            return False
        self._stuck = jobs.running
        free = self._capacity.accelerators - int(jobs.accelerators[jobs.running].sum())
        if not free:
            return False
        # Between rounds who was submitted first may have what is free.
        next_of_all = self._waiting.first(free)
        begun = len(first_that_fit(jobs.accelerators[next_of_all].tolist(), free, pass_over=False))
        started = next_of_all[:begun]
        if begun:
            self._waiting.remove(started)
            jobs.running = np.sort(np.concatenate((jobs.running, started)))
            jobs.paused = jobs.without(jobs.paused, started)
        return bool(begun)

    def round(self, now: float) -> bool:
        """A new round of a scheduler that has them; whether anything changed."""
        jobs, running, waiting = self._jobs, self._jobs.running, self._waiting
        assert isinstance(waiting, BySubmission)
        numbers = np.concatenate((running, waiting.all()))
        runs = np.arange(len(numbers)) < len(running)
        chosen = choose(self._scheduler, jobs.requests(numbers), runs, self._capacity, now)
        kept = np.sort(numbers[chosen])
        if np.array_equal(kept, running):
            return False
        stopped, begun = jobs.without(running, kept), jobs.without(kept, running)
        self._stuck = None
        waiting.remove(begun)
        waiting.add(stopped)
        jobs.paused = np.sort(np.concatenate((jobs.without(jobs.paused, begun), stopped)))
        jobs.running = kept
        return True
