"""Figure 7 of the paper (Quiver, FAST'20, section 7.5): a cache of a fifth; four jobs, and three more that join later.

For both rotations: which chunks are in the cache over time, how much all jobs read together, and what leaves the store.
The paper's has ten chunks in two buffers: never more than two are resident. What is resident is seen from outside, by
the files in the node's cache directory.

    python -m tests.bench.figure7 [--quick] [--out DIR]
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment import plots
from tests.bench.experiment.cell import CYCLIC, RELEVANCE, Way
from tests.bench.experiment.jobs import JobRun, Jobs, JobSpec
from tests.bench.experiment.remote import Data, Remote
from tests.bench.experiment.watch import ChunksOnDisk, Samples, Watch
from tests.bench.experiment.world import World

SHARE, FIRST, LATER = 0.2, 4, 3
STORE_SPEED = 2.5  # data sets in an epoch of a job that never waits
SHARD_RECORDS, RECORD_BYTES, FILES, BATCH = 16, 4080, 8, 32
CYCLIC_CHUNKS, RELEVANCE_CHUNKS, SHARDS = 10, 40, 400
RELEVANCE_BAR, STEP_UP_BAR = 1.10, 1.5


@dataclass(frozen=True)
class Scale:
    epoch_s: float  # of a job that never waits
    join_epochs: float  # when the others join
    epochs: int  # of each of the first four


FULL = Scale(epoch_s=16.0, join_epochs=1.5, epochs=4)
QUICK = Scale(epoch_s=5.0, join_epochs=1.3, epochs=3)


@dataclass
class Seen:
    """One rotation's run."""

    way: Way
    runs: list[JobRun]
    samples: Samples
    allocation_bytes: int
    chunk_sizes_bytes: Any
    data_bytes: int
    joined_s: float

    @property
    def resident(self) -> Any:
        """Part of each chunk that is resident, shape [looks, chunks]."""
        return np.array(self.samples.chunk_bytes) / self.chunk_sizes_bytes

    @property
    def most_chunks(self) -> int:
        return int((self.resident > 0).sum(axis=1).max())

    @property
    def most_bytes(self) -> int:
        return int(np.array(self.samples.chunk_bytes).sum(axis=1).max())

    def loads(self) -> float:
        """Data-set sizes from the store per epoch, over the first job's epochs that began when all had joined."""
        epochs = [epoch for epoch in self.runs[0].complete_epochs if epoch.began_s >= self.joined_s]
        began, ended = epochs[0].began_s, epochs[-1].ended_s
        read = np.interp([began, ended], self.samples.at_s, self.samples.store_bytes)
        return float(read[1] - read[0]) / self.data_bytes / len(epochs)

    def records_per_s(self, began_s: float, ended_s: float) -> float:
        totals = np.array(self.samples.records).sum(axis=1)
        read = np.interp([began_s, ended_s], self.samples.at_s, totals)
        return float(read[1] - read[0]) / (ended_s - began_s)

    def step_up(self) -> float:
        """All jobs' records/s in the first epoch that began after the others joined, by that just before they did."""
        epoch = next(epoch for epoch in self.runs[0].complete_epochs if epoch.began_s >= self.joined_s)
        before = self.records_per_s(self.joined_s / 2, self.joined_s)
        return self.records_per_s(epoch.began_s, epoch.ended_s) / before


def measure(base: Path, remote: Remote, data: Data, way: Way, scale: Scale) -> Seen:
    chunks = CYCLIC_CHUNKS if way is CYCLIC else RELEVANCE_CHUNKS
    step_s = scale.epoch_s / (data.records / BATCH)
    joined_s = scale.join_epochs * scale.epoch_s
    specs = [JobSpec(f"job-{number}", step_s, BATCH, scale.epochs) for number in range(FIRST)]
    specs += [JobSpec(f"late-{number}", step_s, BATCH, 1 << 30, start_s=joined_s) for number in range(LATER)]
    flags = {"coordinator": [f"--chunk_timeout_ms={int(250 * scale.epoch_s)}"]}

    def on_epoch(run: JobRun) -> None:
        if run is jobs.runs[0] and len(run.complete_epochs) == scale.epochs:
            watch.pause()
            jobs.finish()

    with World(base, remote, 2 * data.disk_bytes, flags=flags) as world:
        fixed = world.set_cache(data, way.mode, SHARE, way.rotation, chunks)
        on_disk = ChunksOnDisk(data, fixed.chunks, fixed.partitions, [world.cache_dir()])
        jobs = Jobs(specs, lambda spec: world.dataset(data, spec), data, on_epoch)
        watch = Watch(remote, jobs, 0.1, on_disk)
        jobs.start()
        watch.start()
        runs = jobs.join(60 + 20 * scale.epoch_s * scale.epochs)
        samples = watch.stop()
    samples.store_bytes[:] = [read - samples.store_bytes[0] for read in samples.store_bytes]
    return Seen(way, runs, samples, round(SHARE * data.size_bytes), on_disk.sizes_bytes, data.size_bytes, joined_s)


def draw(seen: list[Seen], out: Path) -> Path:
    drawn, axes = plots.figure(3, len(seen), 8.5, 6.5, sharex="col", height_ratios=[3, 1, 1.3])
    for column, one in enumerate(seen):
        chunks, amount, rate = axes[0][column], axes[1][column], axes[2][column]
        at = np.array(one.samples.at_s)
        colour = plots.COLOURS[one.way.name]
        chunks.set_title(f"{one.way.name}, {one.resident.shape[1]} chunks")
        edges = np.append(at, at[-1])
        numbers = np.arange(one.resident.shape[1] + 1) - 0.5
        chunks.pcolormesh(edges, numbers, one.resident.T, cmap=plots.fading(colour), vmin=0, vmax=1, rasterized=True)
        chunks.grid(False)
        amount.plot(at, (one.resident > 0).sum(axis=1), color=colour, label="with anything resident")
        amount.plot(at, one.resident.sum(axis=1), color="black", linewidth=0.8, label="resident, in whole chunks")
        amount.set_ylim(bottom=0)
        times, rates = one.samples.rates(1.5)
        rate.plot(times, rates / 1000, color=colour, label="all jobs, thousand records/s")
        store = np.array(one.samples.store_bytes) / one.data_bytes
        right = rate.twinx()
        right.plot(at, store, color="black", linewidth=0.8, label="from the store, data sets")
        right.set_ylim(bottom=0)
        right.grid(False)
        rate.set_ylim(bottom=0)
        rate.set_xlabel("seconds")
        for axis in (chunks, amount, rate):
            axis.axvline(one.joined_s, color="black", linewidth=0.8, linestyle=":")
        if column == 0:
            chunks.set_ylabel("chunk")
            amount.set_ylabel("chunks")
            rate.set_ylabel("thousand records/s")
            chunks.text(one.joined_s, numbers[-1], " three join", va="top", fontsize=8)
        if column == len(seen) - 1:
            right.set_ylabel("from the store,\ndata sets")
        amount.legend(loc="lower right")
        rate.legend([*rate.lines[:1], *right.lines], ["all jobs", "from the store"], loc="upper left", ncols=2)
        rate.set_ylim(top=1.3 * max(rates) / 1000)
    return plots.save(drawn, out, "figure7")


def main() -> None:
    parser = quick_parser(__doc__, "shorter epochs, less than 60 s")
    parser.add_argument("--out", type=Path, default=plots.DEFAULT_OUT, metavar="DIR", help="where the plot goes")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    scale = QUICK if arguments.quick else FULL
    shard_bytes = SHARD_RECORDS * (RECORD_BYTES + 16)
    seen = []
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base,
        Remote.start(Path(base) / "remote", STORE_SPEED * SHARDS * shard_bytes / scale.epoch_s) as remote,
    ):
        data = remote.add("records", FILES, SHARDS * SHARD_RECORDS // FILES, RECORD_BYTES, SHARD_RECORDS)
        for way in (CYCLIC, RELEVANCE):
            seen.append(measure(Path(base) / way.name, remote, data, way, scale))
    cyclic, relevance = seen
    if not arguments.quick:
        print(draw(seen, arguments.out), file=sys.stderr)
    figures = {
        one.way.name: {
            "most_chunks": one.most_chunks,
            "most_bytes_of_allocation": round(one.most_bytes / one.allocation_bytes, 4),
            "loads_per_epoch": round(one.loads(), 4),
            "records_per_s_before": round(one.records_per_s(one.joined_s / 2, one.joined_s)),
            "step_up": round(one.step_up(), 3),
        }
        for one in seen
    }
    bars = [
        Bar("chunks resident at a time, cyclic", cyclic.most_chunks, 2, at_most=True),
        *(Bar(f"resident bytes / allocation, {one.way.name}", one.most_bytes / one.allocation_bytes, 1.0, at_most=True)
          for one in seen),
        Bar("throughput of 7 jobs / of 4, relevance", relevance.step_up(), STEP_UP_BAR),
        Bar("bytes / (1 - c), 7 jobs out of step, relevance", relevance.loads() / (1 - SHARE), RELEVANCE_BAR, True),
        Bar("rotations with every record exactly once an epoch",
            sum(all(run.every_record_once for run in one.runs) for one in seen), len(seen)),
    ]  # fmt: skip
    finish("figure7", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
