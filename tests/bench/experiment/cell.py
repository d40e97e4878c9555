"""One run of a comparison: so many jobs, so much cache, one way of caching; what left the store for how much read."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.experiment.jobs import JobRun, Jobs, JobSpec
from tests.bench.experiment.remote import Data, Remote
from tests.bench.experiment.world import World


@dataclass(frozen=True)
class Way:
    """A way of caching, as it is shown."""

    name: str
    mode: str
    rotation: str = ""


RELEVANCE = Way("relevance", "cooperative", "relevance")
CYCLIC = Way("cyclic", "cooperative", "cyclic")
LRU = Way("lru", "lru")
ALL_CACHED = Way("all cached", "uniform")
NOT_CACHED = Way("none", "none")


@dataclass(frozen=True)
class Crowd:
    """Jobs by their speeds and beginnings, both in units of `epoch_s`: a job of speed 1 that never waits needs so long
    for an epoch. The fastest is the one whose epochs are counted."""

    name: str
    speeds: tuple[float, ...]
    offsets: tuple[float, ...]
    epoch_s: float

    @property
    def fastest(self) -> int:
        return max(range(len(self.speeds)), key=lambda job: self.speeds[job])

    @property
    def fastest_epoch_s(self) -> float:
        return self.epoch_s / max(self.speeds)

    def alone(self) -> Crowd:
        return Crowd("alone", (max(self.speeds),), (0.0,), self.epoch_s)

    def specs(self, data: Data, batch: int) -> list[JobSpec]:
        batches = data.records / batch
        return [
            JobSpec(f"job-{number}", self.epoch_s / speed / batches, batch, 1 << 30, offset * self.epoch_s)
            for number, (speed, offset) in enumerate(zip(self.speeds, self.offsets, strict=True))
        ]


@dataclass
class Outcome:
    """Between the end of the fastest job's warm-up and that of its last epoch."""

    loads: float  # data-set sizes read from the store per epoch of the fastest job
    epoch_s: float  # of the fastest job, mean
    records_per_s: float  # of all jobs together
    every_record_once: bool  # I-6, in all epochs of all jobs, those of the warm-up included
    chunks: int
    runs: list[JobRun] = field(repr=False)

    def as_json(self) -> dict[str, Any]:
        return {
            "loads": round(self.loads, 4),
            "epoch_s": round(self.epoch_s, 3),
            "records_per_s": round(self.records_per_s),
            "every_record_once": self.every_record_once,
        }


def run(
    remote: Remote,
    data: Data,
    crowd: Crowd,
    way: Way,
    share: float,
    *,
    batch: int,
    chunks: int = 0,
    warm_up: int = 1,
    epochs: int = 2,
    timeout_epochs: float = 0.25,
    flags: Sequence[str] = (),
) -> Outcome:
    """Args:
    share: of the data set's disk bytes, that has room.
    warm_up: epochs of the fastest job that are not counted: everything that they read comes from the store.
    epochs: of the fastest job, that are counted.
    timeout_epochs: the rotation's timeout, in epochs of speed 1.
    flags: further flags of the node.
    """
    marks: list[tuple[float, int, int]] = []  # seconds, store bytes, records of all jobs

    def on_epoch(run: JobRun) -> None:
        if run is fastest and len(run.complete_epochs) >= warm_up:
            marks.append((jobs.now_s, remote.payload_bytes(), sum(other.records for other in jobs.runs)))
            if len(marks) > epochs:
                jobs.finish()

    coordinator_flags = [f"--chunk_timeout_ms={max(100, int(timeout_epochs * crowd.epoch_s * 1000))}"]
    # Twice the disk bytes: what one data set may use is said by its setting, not by the node's quota.
    quota_bytes = 2 * data.disk_bytes
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-cell-", dir=remote.base) as base,
        World(Path(base), remote, quota_bytes, flags={"coordinator": coordinator_flags, "node": flags}) as world,
    ):
        setting = world.set_cache(data, way.mode, share, way.rotation, chunks if way.rotation else 0)
        jobs = Jobs(crowd.specs(data, batch), lambda spec: world.dataset(data, spec), data, on_epoch)
        fastest = jobs.runs[crowd.fastest]
        # Without any cache, N jobs share the store: what they can take is a multiple of what they take at full speed.
        runs = jobs.start().join(60 + 20 * len(jobs.runs) * (warm_up + epochs) * crowd.fastest_epoch_s)
    (began_s, began_bytes, began_records), (ended_s, ended_bytes, ended_records) = marks[0], marks[epochs]
    return Outcome(
        loads=(ended_bytes - began_bytes) / data.size_bytes / epochs,
        epoch_s=(ended_s - began_s) / epochs,
        records_per_s=(ended_records - began_records) / (ended_s - began_s),
        every_record_once=all(run.every_record_once for run in runs),
        chunks=setting.chunks,
        runs=runs,
    )
