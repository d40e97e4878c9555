"""What part of its data set a job has sampled that draws with replacement, from more and more of it. Pure.

Its records are in an order, and step k of the curriculum draws from the first part p(k) of them. So one in the ring
between p(i - 1) and p(i) was there to be drawn in every step from i on, and was missed by all of r bytes drawn from
the part p(k) with exp(-r / p(k)).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.pacing import MOST_STEPS, STEP_ROUNDING
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Floats, Ints
from tfquiver.service.sim.workloads_and_recordings.workload import Pacing


class Curricula:
    """Of those of many jobs that have one. `sizes`: bytes of each job's data set."""

    def __init__(self, pacings: Sequence[Pacing | None], sizes: Floats) -> None:
        self.paced = np.array([pacing is not None for pacing in pacings], np.bool_)
        parts = [_parts(pacing) for pacing in pacings if pacing]
        self.some = bool(parts)
        steps = max(map(len, parts), default=0)
        self._place = np.cumsum(self.paced) - 1  # of a job, in what follows
        # [jobs, steps]: the part that is drawn from; once it is all, all.
        self._parts = np.array([[*own, *[own[-1]] * (steps - len(own))] for own in parts]).reshape(len(parts), steps)
        self._step_bytes = step_bytes = np.array([pacing.step_bytes for pacing in pacings if pacing]).reshape(-1, 1)
        self._begins = step_bytes * np.arange(steps)
        last = np.array([len(own) - 1 for own in parts]).reshape(-1, 1)
        self._ends = np.where(np.arange(steps) >= last, np.inf, self._begins + step_bytes)
        self._begins = np.where(np.arange(steps) > last, np.inf, self._begins)
        self._sizes = sizes[self.paced].reshape(-1, 1)

    def to_step(self, jobs: Ints, done: Floats) -> Floats:
        """Bytes until each of `jobs`, which have a curriculum, draws from more than now; inf: it never will."""
        at = self._place[jobs]
        there = (self._begins[at] <= done[:, None] + self._step_bytes[at] * STEP_ROUNDING).sum(axis=1) - 1
        ahead: Floats = self._ends[at, there] - done
        return ahead

    def sampled(self, jobs: Ints, back: Floats, done: Floats) -> Floats:
        """The part of its data set that each of `jobs`, which have a curriculum, drew from `back` bytes to `done`."""
        at = self._place[jobs]
        parts = self._parts[at]
        drawn = np.minimum(done[:, None], self._ends[at]) - np.maximum(back[:, None], self._begins[at])
        tries = np.maximum(drawn, 0.0) / (parts * self._sizes[at])
        since = np.cumsum(tries[:, ::-1], axis=1)[:, ::-1]  # of each ring: in its step and all later ones
        rings = np.diff(parts, axis=1, prepend=0.0)
        sampled: Floats = (rings * -np.expm1(-since)).sum(axis=1)
        return sampled


def _parts(pacing: Pacing) -> list[float]:
    """Of each step, up to that from which on nothing changes."""
    parts = [pacing.part(0)]
    while len(parts) <= MOST_STEPS and parts[-1] < 1.0 and pacing.growth > 1.0:
        parts.append(pacing.part(len(parts)))
    return parts
