"""The simulator against reality: four jobs that come and go, over two data sets, with a cache for 30 % of both.

On the real system: processes, an object store with a rate, jobs with slept steps, the default policy, nobody sets
anything; `tfquiver trace record` writes down what they read. Then twice in the flow simulator, with the policy and the
planner that ship: as the jobs were meant (speeds from their steps, the store's rate as it was given), and as they were
recorded, which knows nothing but what the cluster measured.

A slept step is as long as the machine lets it be: a busy one wakes a job late, after every mini-batch, and all of that
would add up, as it does in no trainer whose accelerator works by itself. So the next mini-batch is fetched while a step
runs, and follows when the step is over, not when its end is noticed. What is late by more than a step is measured in
the jobs themselves, and the simulated ones have steps that are as long.

    python -m tests.bench.sim_vs_real [--quick]

Bars: each job's time from its submission to its end is within 10 % of the simulated one, what left the store within
5 %, the same decisions in the same order, whichever of the two is simulated; every job sees every record once an epoch.
With --quick store bytes have no bar, and JCT is within 15 %: most is read in first epochs there, in which what a
rotation keeps for a job that came later is not in the flow simulator (a tenth to a sixth more bytes), and a probe that
ends some seconds later or sooner is a tenth of a job.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment.jobs import JobRun, Jobs, JobSpec
from tests.bench.experiment.remote import Data, Remote
from tests.bench.experiment.world import LEASE_AHEAD, World
from tests.support.cluster import die_with_parent
from tfquiver import errors
from tfquiver.service.coordinator.job_schedulers.fifo import Fifo
from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import GONE_S
from tfquiver.service.coordinator.policies.registry import DEFAULT
from tfquiver.service.sim.job_queue_rates_store_bandwidth.simulation import simulate
from tfquiver.service.sim.probing_and_policies.shipping import Shipping
from tfquiver.service.sim.probing_and_policies.sight import SIGHTS
from tfquiver.service.sim.workloads_and_recordings import files
from tfquiver.service.sim.workloads_and_recordings.recording import REPLAN_S
from tfquiver.service.sim.workloads_and_recordings.workload import Cluster, SimJob, Stored, Workload
from tfquiver.sizes_durations_amounts import sizes

RECORD_BYTES, SHARD_RECORDS, BATCH, FILES = 4080, 16, 32, 4
CACHE_SHARE = 0.3
# What a reader asks for: its buffers, and what its node leases ahead of that.
WINDOW_BYTES = JobSpec.shuffle_bytes + JobSpec.readahead_bytes + sizes.parse_bytes(LEASE_AHEAD)
JCT_WITHIN, STORE_WITHIN = 0.10, 0.05
QUICK_JCT_WITHIN = 0.15


@dataclass(frozen=True)
class Job:
    """`bytes_per_s`: what it reads when it never waits."""

    name: str
    data: str
    submit_s: float
    epochs: int
    bytes_per_s: float


@dataclass(frozen=True)
class Scale:
    shards: Mapping[str, int]
    store_bytes_per_s: float
    jobs: tuple[Job, ...]
    quick: bool = False


FULL = Scale(
    {"few": 256, "many": 880},
    1.6e6,
    (
        Job("many-1", "many", 0.0, 6, 1.5e6),
        Job("few-1", "few", 25.0, 7, 1.2e6),
        Job("many-2", "many", 80.0, 5, 1.5e6),
        Job("few-2", "few", 190.0, 6, 1.2e6),
    ),
)
QUICK = Scale(
    {"few": 96, "many": 576},
    3.0e6,
    (
        Job("few-1", "few", 0.0, 2, 0.5e6),
        Job("many-1", "many", 2.0, 1, 1.6e6),
        Job("few-2", "few", 14.0, 1, 0.5e6),
        Job("many-2", "many", 12.0, 1, 1.6e6),
    ),
    quick=True,
)

Decision = tuple[str, str, float]  # data set, mode, share of its disk bytes


@dataclass
class Outcome:
    jct_s: dict[str, float]
    store_bytes: float
    decisions: list[tuple[float, Decision]]  # seconds since the first job came


@dataclass
class Real(Outcome):
    every_record_once: bool
    recorded: dict[str, Any]
    late_s: dict[str, float]  # by which a job's step was longer than it was to be, on average


def real(remote: Remote, data: Mapping[str, Data], scale: Scale, cache_bytes: int) -> Real:
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-real-", dir=remote.base) as base,
        World(Path(base), remote, cache_bytes) as world,
    ):
        for one in data.values():
            world.register(one)
        every = [Jobs(_specs(one, scale), partial(world.dataset, one), one) for one in data.values()]
        file = Path(base) / "recorded.json"
        with recording(world, file):
            before, began, unix_s = remote.payload_bytes(), time.monotonic(), time.time()
            late_s = {}
            for jobs in every:
                jobs.start()
                late_s.update({run.spec.name: time.monotonic() - jobs.now_s - began for run in jobs.runs})
            told = dict[tuple[float, str], dict[str, Any]]()
            while any(len(run.complete_epochs) < run.spec.epochs for jobs in every for run in jobs.runs):
                time.sleep(0.5)
                told |= decided(world, data)
                if time.monotonic() - began > 900:
                    raise TimeoutError("jobs have not ended after 900 s")
            runs = [run for jobs in every for run in jobs.join(10.0)]
            store_bytes = remote.payload_bytes() - before
            time.sleep(6.0)  # the last reports
        recorded = json.loads(file.read_text())
    decisions = [
        (at_s - unix_s, _decision(one, data)) for (at_s, _), one in sorted(told.items(), key=lambda item: item[0])
    ]
    jct_s = {run.spec.name: run.epochs[-1].ended_s - run.spec.start_s for run in runs}
    say(f"begun late by {late_s}; between epochs {_gaps_s(runs)}")
    step_late_s = {run.spec.name: float(np.mean(run.late_s)) for run in runs}
    for run in runs:
        epochs = (f"{one.wall_s:.1f} ({run.waited_s(one.began_s, one.ended_s):.1f})" for one in run.epochs)
        say(f"{run.spec.name}: seconds of each epoch, and of these without a mini-batch: {', '.join(epochs)}")
    say(f"steps longer by { ({name: f'{1e3 * late:.1f} ms' for name, late in step_late_s.items()}) }")
    return Real(jct_s, store_bytes, decisions, all(run.every_record_once for run in runs), recorded, step_late_s)


def _gaps_s(runs: Sequence[JobRun]) -> dict[str, float]:
    """Seconds of each job in which it had no epoch open."""
    return {
        run.spec.name: round(run.epochs[-1].ended_s - run.spec.start_s - sum(epoch.wall_s for epoch in run.epochs), 3)
        for run in runs
    }


@contextmanager
def recording(world: World, file: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "tfquiver", "trace", "record", str(file), "--service", world.coordinator]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    try:
        assert process.stderr and "recording" in process.stderr.readline()
        yield
        process.send_signal(signal.SIGTERM)
        say(process.communicate(timeout=20)[1].strip())
    finally:
        process.kill()
        process.communicate()


def decided(world: World, data: Mapping[str, Data]) -> dict[tuple[float, str], dict[str, Any]]:
    """So far. Of a data set that nobody reads just then nothing is told; it is when somebody does again."""
    found = dict[tuple[float, str], dict[str, Any]]()
    for name in data:
        try:
            told = world.explain(name)
        except Exception as error:
            if "NOT_FOUND" not in str(error):
                raise
            continue
        found |= {(one["at_s"], one["name"]): one for one in told["history"] if one["kind"] == "dataset"}
    return found


def _decision(record: Mapping[str, Any], data: Mapping[str, Data]) -> Decision:
    name, becomes = record["name"].partition(" (")[0], record["becomes"]
    return name, becomes["mode"], round(becomes["cache_bytes"] / data[name].disk_bytes, 2)


def _specs(data: Data, scale: Scale) -> list[JobSpec]:
    record_bytes = data.size_bytes / data.records
    return [
        JobSpec(job.name, BATCH * record_bytes / job.bytes_per_s, BATCH, job.epochs, job.submit_s, ahead=True)
        for job in scale.jobs
        if job.data == data.name
    ]


def simulated(workload: Workload, cluster: Cluster, disk_bytes: Mapping[str, int]) -> Outcome:
    policy = Shipping(DEFAULT)
    came_s = min(job.submit_s for job in workload.jobs)
    outcome = simulate(workload, cluster, policy, Fifo(), replan_s=REPLAN_S, sight=SIGHTS["measured"])
    decisions = []
    for one in policy.decisions:
        record = one.to_record()
        if record["kind"] == "dataset":
            share = round(record["becomes"]["cache_bytes"] / disk_bytes[one.name], 2)
            decisions.append((one.at_s - came_s, (one.name, record["becomes"]["mode"], share)))
    jct_s = {job.name: took_s for job, took_s in zip(workload.jobs, outcome.jct_s, strict=True)}
    return Outcome(jct_s, outcome.store_bytes, decisions)


def as_meant(data: Mapping[str, Data], scale: Scale, late_s: Mapping[str, float]) -> Workload:
    def bytes_per_s(job: Job) -> float:
        batch_bytes = BATCH * data[job.data].size_bytes / data[job.data].records
        return batch_bytes / (batch_bytes / job.bytes_per_s + late_s[job.name])

    return Workload(
        {one.name: one.size_bytes for one in data.values()},
        tuple(
            SimJob(
                job.name,
                job.data,
                bytes_per_s(job),
                job.epochs * data[job.data].size_bytes,
                1,
                job.submit_s,
                window_bytes=WINDOW_BYTES,
            )
            for job in scale.jobs
        ),
        {one.name: Stored(one.disk_bytes, one.digest.num_shards, one.records) for one in data.values()},
    )


def until_one_is_read_no_more(outcome: Outcome, scale: Scale) -> list[Decision]:
    """What is decided after that nobody can be asked for."""
    ends_s = {job.name: job.submit_s + outcome.jct_s[job.name] for job in scale.jobs}
    last_s = min(
        max(ends_s[job.name] for job in scale.jobs if job.data == name) for name in {job.data for job in scale.jobs}
    )
    return [decision for at_s, decision in outcome.decisions if at_s < last_s + GONE_S / 2]


def bars(found: Real, runs: Mapping[str, Outcome], scale: Scale) -> list[Bar]:
    made = []
    decisions = until_one_is_read_no_more(found, scale)
    for name, run in runs.items():
        worst = max(run.jct_s, key=lambda job: abs(found.jct_s[job] / run.jct_s[job] - 1))
        off = abs(found.jct_s[worst] / run.jct_s[worst] - 1)
        made.append(
            Bar(f"{name}: JCT off by ({worst}, the worst)", off, QUICK_JCT_WITHIN if scale.quick else JCT_WITHIN, True)
        )
        if not scale.quick:
            off = abs(found.store_bytes / run.store_bytes - 1)
            made.append(Bar(f"{name}: store bytes off by", off, STORE_WITHIN, True))
        same = int(until_one_is_read_no_more(run, scale) == decisions)
        made.append(Bar(f"{name}: the same {len(decisions)} decisions in the same order", same, 1))
    return [*made, Bar("every record exactly once an epoch", int(found.every_record_once), 1)]


def table(outcomes: Mapping[str, Outcome], scale: Scale) -> None:
    jobs = [job.name for job in scale.jobs]
    say(f"\n| | {' | '.join(jobs)} | from the store |\n|---|{'--:|' * (len(jobs) + 1)}")
    for name, one in outcomes.items():
        times = " | ".join(f"{one.jct_s[job]:.1f} s" for job in jobs)
        say(f"| {name} | {times} | {one.store_bytes / 1e6:.1f} MB |")
    for name, one in outcomes.items():
        told = "; ".join(f"{at_s:.0f} s {data} {mode} {share:.0%}" for at_s, (data, mode, share) in one.decisions)
        say(f"{name}: {told}")
    say("")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = quick_parser(__doc__, "short jobs, less than 60 s")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    scale = QUICK if arguments.quick else FULL
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base,
        Remote.start(Path(base), scale.store_bytes_per_s) as remote,
    ):
        data = {
            name: remote.add(name, FILES, shards * SHARD_RECORDS // FILES, RECORD_BYTES, SHARD_RECORDS)
            for name, shards in scale.shards.items()
        }
        disk_bytes = {name: one.disk_bytes for name, one in data.items()}
        cache_bytes = int(CACHE_SHARE * sum(disk_bytes.values()))
        cluster = Cluster(len(scale.jobs), cache_bytes, scale.store_bytes_per_s)
        found = real(remote, data, scale, cache_bytes)
        runs = {"as meant": simulated(as_meant(data, scale, found.late_s), cluster, disk_bytes)}
        recorded = files.scenario(found.recorded)
        if recorded.trace is None:
            raise errors.DataLossError("nothing was recorded")
        runs["as recorded"] = simulated(recorded.trace, recorded.cluster, disk_bytes)
    table({"real": found, **runs}, scale)
    figures: dict[str, Any] = {
        name: {"jct_s": one.jct_s, "store_bytes": one.store_bytes, "decisions": one.decisions}
        for name, one in {"real": found, **runs}.items()
    }
    figures["step_late_s"] = found.late_s
    finish("sim_vs_real", figures, bars(found, runs, scale), arguments.quick)


if __name__ == "__main__":
    run_bench(main)
