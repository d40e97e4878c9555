"""The steps of every job: what training processes say goes in, what is known of a job comes out. Pure."""

from __future__ import annotations

from tfquiver.clock import Clock
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import JobKey, JobMeters
from tfquiver.service.coordinator.measuring_jobs_and_stores.step_meter import SILENT_S, StepMeter, StepReading, Steps

_COUNT_S = 5.0


class StepMeters:
    """Of jobs that `meters` knows, and of no others: what anybody can make up takes no room."""

    def __init__(self, clock: Clock, meters: JobMeters) -> None:
        self._clock, self._meters = clock, meters
        self._steps: dict[str, StepMeter] = {}  # by JobMeters.name_of; who was heard of last, last
        self._processes, self._counted_at = 0, float("-inf")

    @property
    def processes(self) -> int:
        """Of all jobs, a moment ago."""
        if (now := self._clock.now()) >= self._counted_at + _COUNT_S:
            self._processes, self._counted_at = sum(one.processes for one in self._steps.values()), now
        return self._processes

    def take(self, name: str, process: str, reading: StepReading) -> bool:
        """False: nobody reads by that name just now, or its readers do not report; nothing was kept."""
        now = self._clock.now()
        while self._steps and self._steps[oldest := next(iter(self._steps))].heard_at <= now - SILENT_S:
            del self._steps[oldest]
        if not self._meters.of_name(name):
            self._steps.pop(name, None)
            return False
        meter = self._steps.pop(name, None) or StepMeter()
        self._steps[name] = meter
        meter.report(process, reading, now)
        return True

    def of(self, key: JobKey) -> Steps | None:
        """Of a job over a data set; None: nobody says anything of it."""
        meter = self._steps.get(self._meters.name_of(key))
        return meter.steps(self._clock.now()) if meter else None
