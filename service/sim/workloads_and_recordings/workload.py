"""What is simulated: the cluster, its data sets, and the jobs that come. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from tfquiver.service.coordinator.sampling_schemes_drawing_epochs import pacing

_RECORD_BYTES = 110_000.0
SHARD_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Pacing:
    """A curriculum: of records sorted by difficulty only the first part is sampled, more and more of it (SiloD
    equation 10). In data-set sizes read, not in iterations."""

    starting_part: float
    growth: float  # alpha
    step_bytes: float

    def step(self, done_bytes: float) -> int:
        """Which one it is in, from 0; as `pacing.step_of`."""
        return pacing.step_of(done_bytes / self.step_bytes)

    def part(self, step: int) -> float:
        return pacing.part(self.starting_part, self.growth, step)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a job did in the cluster that a trace was recorded from. Nothing is simulated with it."""

    read_bytes: int  # while it was recorded
    missed_bytes: int  # of those from the store
    began_before: bool = False  # it read already when the recording began: nobody knows since when
    ended_s: float | None = None  # None: it still read when the recording ended


@dataclass(frozen=True, slots=True)
class SimJob:
    name: str
    dataset: str
    ideal_bytes_per_s: float
    total_bytes: float  # epochs times the data set's size
    accelerators: int = 1
    submit_s: float = 0.0
    pacing: Pacing | None = None  # None: every record once an epoch
    recorded: Recorded | None = None
    # What its readers ask for at a time, which is on its way, or in their buffers; None: not known.
    window_bytes: float | None = None

    @property
    def recorded_jct_s(self) -> float | None:
        """None: it was not recorded from its beginning to its end."""
        if self.recorded is None or self.recorded.ended_s is None or self.recorded.began_before:
            return None
        return max(0.0, self.recorded.ended_s - self.submit_s)


@dataclass(frozen=True, slots=True)
class Cluster:
    accelerators: int
    cache_bytes: int  # on the disks
    remote_bytes_per_s: float = inf


@dataclass(frozen=True, slots=True)
class Stored:
    """How a data set lies in caches."""

    disk_bytes: int  # what all of it takes on the disks, headers and whole pages included
    shards: int
    records: int


@dataclass(frozen=True, slots=True)
class Workload:
    datasets: Mapping[str, int]  # bytes of records by name
    jobs: tuple[SimJob, ...]
    stored: Mapping[str, Stored] = field(default_factory=dict)  # where that is known; else the disks take as much

    def record_bytes(self, dataset: str) -> float:
        """The mean; of images where it is not known."""
        return self.datasets[dataset] / self.stored[dataset].records if dataset in self.stored else _RECORD_BYTES

    def shard_bytes(self, dataset: str) -> float:
        """The mean; where it is not known `SHARD_BYTES`."""
        return self.datasets[dataset] / self.stored[dataset].shards if dataset in self.stored else SHARD_BYTES

    def disk_bytes(self, name: str) -> int:
        return self.stored[name].disk_bytes if name in self.stored else self.datasets[name]
