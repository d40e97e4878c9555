"""What is simulated: the cluster, its data sets, and the jobs that come. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Pacing:
    """A curriculum: of records sorted by difficulty only the first part is sampled, more and more of it (SiloD
    equation 10). In data-set sizes read, not in iterations."""

    starting_part: float
    growth: float  # alpha
    step_bytes: float

    def part(self, done_bytes: float) -> float:
        steps = done_bytes // self.step_bytes
        return min(1.0, self.starting_part * float(self.growth ** min(steps, 100.0)))


@dataclass(frozen=True, slots=True)
class SimJob:
    name: str
    dataset: str
    ideal_bytes_per_s: float
    total_bytes: float  # epochs times the data set's size
    accelerators: int = 1
    submit_s: float = 0.0
    pacing: Pacing | None = None  # None: every record once an epoch


@dataclass(frozen=True, slots=True)
class Cluster:
    accelerators: int
    cache_bytes: int
    remote_bytes_per_s: float = inf


@dataclass(frozen=True, slots=True)
class Workload:
    datasets: Mapping[str, int]  # bytes by name
    jobs: tuple[SimJob, ...]
