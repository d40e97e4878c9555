"""One job's steps and accelerators, from what its training processes say. Pure.

Processes say how many steps they have made since they began, and how long those took. Reports come late, twice, from
processes that are gone, and some from liars: nothing falls, nobody has had more time than has passed here, and what
a process says counts for as long as it is heard of.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

SILENT_S = 60.0  # nobody has heard of a process for so long: it is gone, and its accelerators with it
MOST_PROCESSES = 4096  # of one job, that are remembered
MOST_ACCELERATORS = 65_536  # of one process
WINDOW_S = 10.0
# A loop that waits for data does so between steps, if only a little; one with nothing there fetches within the step.
_LEAST_BETWEEN = 0.01
_LATE_S = 10.0  # a report may have been so long under way


@dataclass(frozen=True, slots=True)
class StepReading:
    """What a process says of itself since it began. `records` 0, `accelerators` 0: it does not know."""

    steps: int
    step_s: float
    between_s: float
    records: int = 0
    accelerators: int = 0
    waits_inside: bool = False

    def fell(self, before: StepReading) -> bool:
        now, then = _counters(self), _counters(before)
        return any(one < other for one, other in zip(now, then, strict=True))


@dataclass(frozen=True, slots=True)
class Steps:
    """Of a job: all its processes together, over the newest window of each; times of the average step, in seconds.

    `batch_records`: that all processes together take in a step; None: not all of them say so. `waited_share`: of its
    time the trainer itself waited for data, behind every prefetch; None: that cannot be told (`_waited_share`).
    """

    processes: int
    accelerators: int
    step_s: float | None = None  # None: no step has ended
    between_s: float | None = None
    batch_records: int | None = None
    waited_share: float | None = None


@dataclass(slots=True)
class _Process:
    last: StepReading
    heard_at: float
    moved_at: float  # its times were seen to grow
    began: StepReading  # where the window that is under way begins
    window: StepReading | None = None  # the last whole one: differences

    @property
    def newest(self) -> StepReading:
        return self.window or _since(self.last, self.began)


class StepMeter:
    def __init__(self) -> None:
        self.heard_at = float("-inf")
        self._processes: OrderedDict[str, _Process] = OrderedDict()  # who was heard of last, last
        # Of thousands of processes it takes milliseconds, and each of the job's sessions may be asked about.
        self._told: Steps | None = None
        self._told_until = float("-inf")

    def report(self, name: str, reading: StepReading, now: float) -> None:
        """`now` may jump, and what is reported may be anything: what cannot be is not counted."""
        self.heard_at = now = max(now, self.heard_at)
        self._told_until = float("-inf")
        process = self._processes.get(name)
        if process is None:
            # What it did before it was heard of here is not looked at: nobody knows how long ago that was.
            self._processes[name] = _Process(reading, now, now, reading)
        else:
            if reading.fell(process.last):
                return  # late: a newer one has come already
            self._count(process, reading, now)
            process.heard_at = now
            self._processes.move_to_end(name)
        while self._processes:
            oldest = next(iter(self._processes))
            if len(self._processes) <= MOST_PROCESSES and self._processes[oldest].heard_at > now - SILENT_S:
                break
            del self._processes[oldest]

    @property
    def processes(self) -> int:
        return len(self._processes)

    def steps(self, now: float) -> Steps | None:
        """None: nobody is heard of."""
        if now >= self._told_until:
            living = [one for one in self._processes.values() if one.heard_at > now - SILENT_S]
            self._told = self._steps(living) if living else None
            self._told_until = min((one.heard_at for one in living), default=float("inf")) + SILENT_S
        return self._told

    def _steps(self, living: list[_Process]) -> Steps:
        accelerators = sum(max(one.last.accelerators, 1) for one in living)
        newest = [one.newest for one in living]
        made = sum(one.steps for one in newest)
        if not made:
            return Steps(len(living), accelerators)
        taking = [one.records / one.steps for one in newest if one.steps]
        return Steps(
            len(living),
            accelerators,
            sum(one.step_s for one in newest) / made,
            sum(one.between_s for one in newest) / made,
            max(1, round(sum(taking))) if all(taking) else None,
            _waited_share(living[0].window) if len(living) == 1 else None,
        )

    def _count(self, process: _Process, reading: StepReading, now: float) -> None:
        delta = _since(reading, process.last)
        if delta.step_s + delta.between_s > now - process.moved_at + _LATE_S:
            process.last = process.began = reading  # it has not had that time: another beginning
            process.moved_at = now
            return
        process.last = reading
        if delta.step_s + delta.between_s > 0:
            process.moved_at = now
        window = _since(reading, process.began)
        if window.steps and window.step_s + window.between_s >= WINDOW_S:
            process.window, process.began = window, reading


def _waited_share(one: StepReading | None) -> float | None:
    """Of the one process's whole window. Where there are several each waits for the others within its steps; where the
    data are fetched within a step, which is also so when nothing lies between steps, its time says nothing of waiting.
    """
    if one is None or one.waits_inside:
        return None
    all_s = one.step_s + one.between_s
    if one.between_s < _LEAST_BETWEEN * all_s:
        return None
    return one.between_s / all_s


def _since(now: StepReading, before: StepReading) -> StepReading:
    steps, step_s, between_s, records = (
        one - other for one, other in zip(_counters(now), _counters(before), strict=True)
    )
    return StepReading(int(steps), step_s, between_s, int(records), now.accelerators, now.waits_inside)


def _counters(one: StepReading) -> tuple[int, float, float, int]:
    return one.steps, one.step_s, one.between_s, one.records
