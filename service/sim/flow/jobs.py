"""The jobs of a simulation as columns, and who waits for accelerators. Pure."""

from __future__ import annotations

from bisect import insort
from math import inf

import numpy as np

from tfquiver.service.coordinator.job_schedulers.interface import (
    Capacity,
    JobRequest,
    Scheduler,
    choose,
    first_that_fit,
)
from tfquiver.service.sim.flow.sharing import Ints
from tfquiver.service.sim.workloads.workload import SimJob, Workload

Waiting = tuple[float, float, str, JobRequest, int]


class Jobs:
    def __init__(self, workload: Workload) -> None:
        self.all: tuple[SimJob, ...] = workload.jobs
        numbers = {name: number for number, name in enumerate(workload.datasets)}
        count = len(self.all)
        self.dataset: Ints = np.array([numbers[job.dataset] for job in self.all], np.int64)
        self.size = np.array([workload.datasets[job.dataset] for job in self.all], np.float64)
        self.ideal = np.array([job.ideal_bytes_per_s for job in self.all], np.float64)
        self.total = np.array([job.total_bytes for job in self.all], np.float64)
        self.accelerators = np.array([job.accelerators for job in self.all], np.float64)
        self.done = np.zeros(count)
        self.served_s = np.zeros(count)
        self.ended_s = np.full(count, np.nan)
        self.running: Ints = np.zeros(0, np.int64)
        self.paused: Ints = np.zeros(0, np.int64)  # begun, and stopped for another one's turn
        self.irregular = np.array([job.pacing is not None for job in self.all], np.bool_)
        self.parts = np.zeros(count)  # of the data set that an irregular job samples now
        self.pace()

    def pace(self) -> None:
        for number in np.flatnonzero(self.irregular):
            pacing = self.all[number].pacing
            assert pacing is not None
            self.parts[number] = pacing.part(pacing.step(float(self.done[number])))

    def request(self, number: int) -> JobRequest:
        job = self.all[number]
        done = float(self.done[number])
        return JobRequest(
            job.name, job.accelerators, job.submit_s, float(self.size[number]), job.ideal_bytes_per_s,
            job.total_bytes - done, done, float(self.served_s[number]),
        )  # fmt: skip


class Queue:
    """Who waits, in the scheduler's order; starts and stops jobs. The rules are those of `schedulers.interface`."""

    def __init__(self, jobs: Jobs, scheduler: Scheduler, capacity: Capacity) -> None:
        self._jobs, self._scheduler, self._capacity = jobs, scheduler, capacity
        self._numbers = {job.name: number for number, job in enumerate(jobs.all)}
        self._waiting: list[Waiting] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, number: int, now: float) -> None:
        request = self._jobs.request(number)
        # Of a scheduler with rounds the order is made in each; of another one a waiting job's key stays.
        rounds = self._scheduler.round_s is not None
        key = inf if rounds else self._scheduler.key(request, self._capacity, 1, now)
        insort(self._waiting, (key, request.submitted_at_s, request.name, request, number))

    def fill(self) -> bool:
        """Starts those that come next where accelerators are free; whether it has."""
        if not self._waiting:
            return False
        free = self._capacity.accelerators - int(self._jobs.accelerators[self._jobs.running].sum())
        # Between rounds who was submitted first may have what is free.
        begun = len(first_that_fit((entry[3] for entry in self._waiting), free, pass_over=False)) if free else 0
        started = [entry[4] for entry in self._waiting[:begun]]
        del self._waiting[:begun]
        if started:
            self._jobs.running = np.sort(np.append(self._jobs.running, started))
            self._jobs.paused = np.setdiff1d(self._jobs.paused, started)
        return bool(started)

    def round(self, now: float) -> bool:
        """A new round of a scheduler that has them; whether anything changed."""
        running = [self._jobs.request(int(number)) for number in self._jobs.running]
        waiting = [self._jobs.request(entry[4]) for entry in self._waiting]
        chosen = choose(self._scheduler, running, waiting, self._capacity, now)
        numbers = np.sort(np.array([self._numbers[name] for name in chosen], np.int64))
        if np.array_equal(numbers, self._jobs.running):
            return False
        stopped = set(self._jobs.running.tolist()) - set(numbers.tolist())
        kept = set(numbers.tolist())
        self._waiting = [entry for entry in self._waiting if entry[4] not in kept]
        self._jobs.paused = np.array(sorted((set(self._jobs.paused.tolist()) | stopped) - kept), np.int64)
        self._jobs.running = numbers
        for number in stopped:
            self.submit(number, now)
        return True
