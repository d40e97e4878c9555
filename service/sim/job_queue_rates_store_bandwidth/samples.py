"""What is seen of a simulation over time, in bounded memory. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOST_SAMPLES = 1 << 17  # a picture is a thousand points wide; of a year planned each second there were 10 GB of them


@dataclass(frozen=True, slots=True)
class Sample:
    """From `at_s` until the next one."""

    at_s: float
    # The least job's rate over that at an equal division, of those that run (SiloD equation 8); nan: none runs.
    fairness: float
    read_bytes_per_s: float
    store_bytes_per_s: float
    ideal_bytes_per_s: float  # of those that run
    resident_bytes: float
    running: int
    waiting: int


class Samples:
    """All that are added, or where they are too many every second, fourth, ... of them, and the last. What is averaged
    over time is of all."""

    def __init__(self) -> None:
        self._kept: list[Sample] = []
        self._last: Sample | None = None
        self._added, self._every = 0, 1
        self._fair_s = self._held_s = 0.0

    def add(self, sample: Sample) -> None:
        if (before := self._last) is not None and before.fairness == before.fairness:
            held_s = sample.at_s - before.at_s
            self._fair_s += before.fairness * held_s
            self._held_s += held_s
        self._last = sample
        if self._added % self._every == 0:
            self._kept.append(sample)
            if len(self._kept) > MOST_SAMPLES:
                self._kept, self._every = self._kept[::2], 2 * self._every
        self._added += 1

    @property
    def fairness(self) -> float:
        """Over time; nan: no job ever ran."""
        return self._fair_s / self._held_s if self._held_s else float("nan")

    @property
    def kept(self) -> Sequence[Sample]:
        last = self._last
        return self._kept if last is None or self._kept[-1] is last else [*self._kept, last]
