"""A node is killed and its disk is lost while jobs read, and an empty one takes its place later.

Three nodes hold all of a cooperative data set, four jobs in step read through two of them. Then the third is gone: jobs
go on with what the other two hold, while these fetch the lost third again in the background, within
`--refill_bytes_per_s`. Every record must be seen exactly once an epoch: the jobs' own nodes live.

    python -m tests.bench.node_loss [--quick] [--out DIR]
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment import plots
from tests.bench.experiment.jobs import JobRun, Jobs, JobSpec
from tests.bench.experiment.remote import Data, Remote
from tests.bench.experiment.world import World
from tests.support import node_calls

NODES, JOBS, LOST = 3, 4, 2
SHARD_RECORDS, RECORD_BYTES, FILES, BATCH, CHUNKS = 16, 4080, 8, 32, 40
ROOM = 1.3  # data sets: rendezvous hashing gives nodes unequal parts
NODE_TIMEOUT_S = 1.0
LOOK_S, WINDOW_S = 0.2, 2.0
BURST_S = 0.5  # of the rate, that a node may save up
KILL_AT = 0.2  # of the third epoch
DEADLINE_S = 180.0
DURING_BAR, AFTER_BAR, STALL_BAR_S = 0.85, 0.9, 1.0
HEARTBEAT_S = NODE_TIMEOUT_S / 5


@dataclass(frozen=True)
class Scale:
    shards: int
    epoch_s: float  # of a job that never waits
    refill_s: float  # in which the lost third is to be back, by the rate

    @property
    def data_bytes(self) -> int:
        return self.shards * SHARD_RECORDS * (RECORD_BYTES + 16)

    @property
    def refill_bytes_per_s(self) -> int:
        """Of each node that is left."""
        return round(self.data_bytes / NODES / self.refill_s / (NODES - 1))

    @property
    def most_fetched(self) -> float:
        """Bytes from the store by bytes lost: each is fetched again once; and until the node counts as lost, what a job
        is given of its shards is read from the store and kept nowhere."""
        return 1.05 + JOBS * (NODE_TIMEOUT_S + HEARTBEAT_S) / self.epoch_s


FULL = Scale(shards=400, epoch_s=12.0, refill_s=5.0)
QUICK = Scale(shards=160, epoch_s=6.0, refill_s=2.5)


@dataclass
class Looks:
    """Seconds since the jobs' beginning, and what there was: of all jobs, of the store, loaded as ordered, on disks."""

    at_s: list[float] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    store_bytes: list[int] = field(default_factory=list)
    loaded_bytes: list[int] = field(default_factory=list)
    held: list[float] = field(default_factory=list)

    def grown(self, what: Sequence[float], began_s: float, ended_s: float) -> float:
        read = np.interp([began_s, ended_s], self.at_s, what)
        return float(read[1] - read[0])

    def rate(self, what: Sequence[float], window_s: float) -> tuple[np.ndarray, np.ndarray]:
        """Over the last `window_s` at each look that has so much before it: times, rates."""
        at = np.array(self.at_s)
        at = at[at >= at[0] + window_s]
        return at, (np.interp(at, self.at_s, what) - np.interp(at - window_s, self.at_s, what)) / window_s


@dataclass
class Seen:
    runs: list[JobRun]
    looks: Looks
    data: Data
    before_s: float  # when the epoch before began
    killed_s: float
    refilled_s: float
    returned_s: float
    ended_s: float

    def records_per_s(self, began_s: float, ended_s: float) -> float:
        return self.looks.grown(self.looks.records, began_s, ended_s) / (ended_s - began_s)

    def longest_wait_s(self, began_s: float, ended_s: float) -> float:
        """Of any job for one mini-batch."""
        waits = [
            arrived - asked
            for run in self.runs
            for asked, arrived in zip(run.asked_s, run.arrived_s, strict=False)
            if began_s <= arrived < ended_s
        ]
        return max(waits)


def measure(base: Path, remote: Remote, data: Data, scale: Scale) -> Seen:
    step_s = scale.epoch_s / (data.records / BATCH)
    specs = [JobSpec(f"job-{number}", step_s, BATCH, 1 << 30) for number in range(JOBS)]
    flags = {
        "coordinator": [f"--node_timeout_ms={int(1000 * NODE_TIMEOUT_S)}"],
        "node": [f"--refill_bytes_per_s={scale.refill_bytes_per_s}"],
    }
    with World(base, remote, 2 * data.disk_bytes, NODES, flags) as world:
        world.set_cache(data, "cooperative", ROOM, "relevance", CHUNKS)
        jobs = Jobs(specs, lambda spec: world.dataset(data, spec, specs.index(spec) % LOST), data)
        watch = _Watch(world, remote, jobs, data)
        jobs.start()
        first = jobs.runs[0]
        watch.until(lambda: len(first.complete_epochs) == 1 and watch.looks.held[-1] == 1.0, "all is cached")
        watch.until(lambda: first.records >= (2 + KILL_AT) * data.records, "the third epoch")
        before_s = first.epochs[1].began_s
        killed_s = jobs.now_s
        world.nodes[LOST].kill()
        shutil.rmtree(world.cache_dir(LOST))
        watch.until(lambda: watch.looks.held[-1] == 1.0, "what was lost is there again")
        refilled_s = jobs.now_s
        watch.until(lambda: jobs.now_s >= refilled_s + scale.epoch_s / 2, "a while")
        world.nodes[LOST].launch()
        watch.until(lambda: len(node_calls.nodes(world.coordinator)) == NODES, "the new node is a member")
        world.nodes[LOST].await_ready()
        returned_s = jobs.now_s
        watch.until(lambda: jobs.now_s >= returned_s + scale.epoch_s, "an epoch's time")
        ended_s = jobs.now_s
        jobs.finish()
        runs = jobs.join(DEADLINE_S)
    return Seen(runs, watch.looks, data, before_s, killed_s, refilled_s, returned_s, ended_s)


class _Watch:
    """Looks on while it waits; in the caller's thread, which is the one that changes things."""

    def __init__(self, world: World, remote: Remote, jobs: Jobs, data: Data) -> None:
        self.looks = Looks()
        self._world, self._remote, self._jobs = world, remote, jobs
        self._hashes = {row.tobytes().hex() for row in data.digest.hashes}

    def until(self, condition: Callable[[], bool], what: str) -> None:
        give_up_at = time.monotonic() + DEADLINE_S
        while True:
            self._look()
            if condition():
                return
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{what}: not within {DEADLINE_S:.0f} s; {self.looks.held[-1]:.1%} held")
            time.sleep(LOOK_S)

    def _look(self) -> None:
        looks = self.looks
        held: set[str] = set()
        for number in range(NODES):
            for directory, _, names in os.walk(self._world.cache_dir(number) / "objects"):
                del directory
                held |= self._hashes & set(names)
        # Jobs read through these two, which live on.
        told = [node_calls.status(self._world.nodes[number].ready["control"]) for number in range(LOST)]
        looks.store_bytes.append(self._remote.payload_bytes())
        looks.loaded_bytes.append(sum(status.loaded_bytes for status in told))
        looks.held.append(len(held) / len(self._hashes))
        looks.records.append(sum(run.records for run in self._jobs.runs))
        looks.at_s.append(self._jobs.now_s)


def draw(seen: Seen, scale: Scale, out: Path) -> Path:
    drawn, (rate, store) = plots.figure(2, 1, 7.5, 4.6, sharex=True)
    looks, colour = seen.looks, plots.COLOURS["relevance"]
    at, records = looks.rate(looks.records, 1.0)
    rate.plot(at, records / 1000, color=colour, label="four jobs")
    rate.set_ylabel("thousand records/s")
    rate.set_ylim(0, 1.25 * float(records.max()) / 1000)
    held = rate.twinx()
    held.plot(looks.at_s, np.array(looks.held) * 100, color="black", linewidth=0.8)
    held.set_ylim(0, 125)
    held.set_yticks(range(0, 101, 20))
    held.set_ylabel("% of the data set cached")
    held.grid(False)
    rate.legend([*rate.lines, *held.lines], ["four jobs", "cached"], loc="lower right")
    at, fetched = looks.rate(looks.store_bytes, 1.0)
    store.plot(at, fetched / 1e6, color=plots.COLOURS["lru"], label="all that leaves the store")
    at, loaded = looks.rate(looks.loaded_bytes, 1.0)
    store.plot(at, loaded / 1e6, color=plots.COLOURS["all cached"], label="loaded by the two that are left")
    bound = (NODES - 1) * scale.refill_bytes_per_s / 1e6
    store.axhline(bound, color="black", linewidth=0.8, linestyle="--", label="bound of the background loads")
    store.set_ylabel("MB/s")
    store.set_ylim(bottom=0)
    store.set_xlabel("seconds")
    store.legend(loc="upper center", bbox_to_anchor=(0.42, 1.02))
    events = (
        (seen.killed_s, "killed"),
        (seen.refilled_s, "refilled"),
        (seen.returned_s, "a new node"),
    )
    for at_s, what in events:
        for axis in (rate, store):
            axis.axvline(at_s, color="black", linewidth=0.8, linestyle=":")
        rate.text(at_s, rate.get_ylim()[1], f" {what}", va="top", fontsize=8)
    return plots.save(drawn, out, "node_loss")


def main() -> None:
    parser = quick_parser(__doc__, "a smaller data set, less than 60 s")
    parser.add_argument("--out", type=Path, default=plots.DEFAULT_OUT, metavar="DIR", help="where the plot goes")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    scale = QUICK if arguments.quick else FULL
    store_bytes_per_s = 2.5 * scale.data_bytes / scale.epoch_s
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base,
        Remote.start(Path(base) / "remote", store_bytes_per_s) as remote,
    ):
        data = remote.add("records", FILES, scale.shards * SHARD_RECORDS // FILES, RECORD_BYTES, SHARD_RECORDS)
        seen = measure(Path(base) / "world", remote, data, scale)
    if not arguments.quick:
        print(draw(seen, scale, arguments.out), file=sys.stderr)
    looks = seen.looks
    before = seen.records_per_s(seen.before_s, seen.killed_s)
    during = seen.records_per_s(seen.killed_s, seen.refilled_s)
    after = seen.records_per_s(seen.returned_s, seen.ended_s)
    bound = (NODES - 1) * scale.refill_bytes_per_s
    at, loaded = looks.rate(looks.loaded_bytes, WINDOW_S)
    fastest = float(loaded[(at >= seen.killed_s + WINDOW_S) & (at <= seen.refilled_s)].max(initial=0.0))
    began_s = seen.killed_s + NODE_TIMEOUT_S - HEARTBEAT_S  # no sooner is the node lost
    loading_s, loads = seen.refilled_s - began_s, looks.grown(looks.loaded_bytes, began_s, seen.refilled_s)
    lost_bytes = (1 - looks.held[int(np.searchsorted(looks.at_s, seen.killed_s))]) * data.size_bytes
    fetched = looks.grown(looks.store_bytes, seen.killed_s, seen.ended_s)
    stall_s = seen.longest_wait_s(seen.killed_s, seen.refilled_s + scale.epoch_s)
    figures = {
        "records_per_s": {"before": round(before), "during": round(during), "after": round(after)},
        "lost_bytes": round(lost_bytes),
        "refill_s": round(seen.refilled_s - seen.killed_s, 2),
        "refill_s_by_the_bound": round(lost_bytes / bound, 2),
        "refill_bound_bytes_per_s": bound,
        "loaded_bytes_per_s": round(loads / loading_s),
        "loaded_bytes_per_s_fastest_2_s": round(fastest),
        "store_bytes_per_s_during": round(fetched / (seen.refilled_s - seen.killed_s)),
        "store_bytes_per_lost_byte": round(fetched / lost_bytes, 3),
        "longest_wait_s": round(stall_s, 3),
        "longest_wait_before_s": round(seen.longest_wait_s(seen.before_s, seen.killed_s), 3),
        "longest_wait_after_return_s": round(seen.longest_wait_s(seen.returned_s, seen.ended_s), 3),
        "store_bytes_after_return": round(looks.grown(looks.store_bytes, seen.returned_s, seen.ended_s)),
    }
    bars = [
        Bar("records/s while it is refilled / before", during / before, DURING_BAR),
        Bar("records/s with the new node / before", after / before, AFTER_BAR),
        Bar("longest wait for a mini-batch, s", stall_s, STALL_BAR_S, at_most=True),
        Bar("background loads / their bound", loads / bound / (loading_s + BURST_S), 1.05, at_most=True),
        Bar("bytes from the store / bytes lost", fetched / lost_bytes, scale.most_fetched, at_most=True),
        Bar("jobs with every record exactly once an epoch", sum(run.every_record_once for run in seen.runs), JOBS),
    ]
    finish("node_loss", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
