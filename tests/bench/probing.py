"""Probing on the real system: what caching is measured to be worth to a job, and who gets the cache for it.

Three jobs with slept steps: one that a store of `STORE_BYTES_PER_S` keeps waiting for most of its time, one that waits
for a third of it, one that never waits. Each reads a data set of its own through a node that is its own coordinator
(embedded mode; with --quick a small cluster), or with --service through a worker of tf.data service; by the default
policy, nobody sets anything.

Alone: each job with a node and a store of its own, and room for all. What its probe says, t_miss / t_hit, is
compared with what it does when all is missed, and when all is hit, in runs that differ in nothing but that setting.

Together: one store, three times as fast, one node, room for one of the three data sets. Then the job that has the
cache ends.

    python -m tests.bench.probing [--quick] [--service]

What it does is counted while it reads, as a probe counts; beside it stands what comes of it by the clock, the time
between two epochs included (decision 0022): through tf.data service a client is told that an epoch is over with one of
its heartbeats, so that epochs of 7.2 s take 8.

Bars: the measured benefit is within 10 % of the true one; the job that gains most has its data set cached; when it has
ended, its room is given to another within a minute; every job sees every record once an epoch.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment.jobs import JobRun, Jobs, JobSpec
from tests.bench.experiment.remote import Data, Remote
from tests.bench.experiment.world import Calls, Embedded, Served, World

STORE_BYTES_PER_S = 1e6
RECORD_BYTES, SHARD_RECORDS, BATCH, FILES = 1008, 32, 128, 2
WITHIN = 0.10
_UNTIL_FULL_S = 3.0  # a job's buffers
GIVEN_BACK_S = 60.0


@dataclass(frozen=True)
class Kind:
    """`bytes_per_s`: what it reads when it never waits."""

    name: str
    bytes_per_s: float


IO_BOUND, BALANCED, COMPUTE_BOUND = Kind("io-bound", 4e6), Kind("balanced", 1.5e6), Kind("compute-bound", 0.6e6)
KINDS = (IO_BOUND, BALANCED, COMPUTE_BOUND)


@dataclass(frozen=True)
class Scale:
    """`probed_s`: the longest that a probe may take, or the decision. An epoch from the store takes longer than a probe
    misses: else what was missed would come again meanwhile, and pass by the cache at the store's cost."""

    kinds: tuple[Kind, ...]
    shards: int
    counted_s: float
    probed_s: float
    quick: bool = False
    service: bool = False

    def place(self, base: Path, remote: Remote, quota_bytes: int) -> AbstractContextManager[Calls]:
        """What jobs read through."""
        if self.service:
            return Served(base, remote, quota_bytes)
        # Quickly: a cluster's heartbeats are told to come more often, so that a probe is over sooner.
        return World(base, remote, quota_bytes) if self.quick else Embedded(base, remote, quota_bytes)


FULL = Scale(KINDS, 832, 20.0, 240.0)
QUICK = Scale((IO_BOUND,), 320, 3.0, 60.0, quick=True)


@dataclass
class Alone:
    """One job, its node and its store."""

    kind: Kind
    data: Data
    remote: Remote
    node: Calls
    jobs: Jobs

    @property
    def run(self) -> JobRun:
        return self.jobs.runs[0]

    def probe(self) -> dict[str, Any] | None:
        try:
            told = self.node.explain(self.kind.name)["probes"].get(self.kind.name)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            return None  # it has not begun to read
        return told if told and "benefit" in told else None


def specs(kind: Kind, data: Data) -> JobSpec:
    return JobSpec(kind.name, BATCH * data.size_bytes / data.records / kind.bytes_per_s, BATCH, 1 << 30)


class Alones:
    """All kinds at once, each alone. `setting`: mode of the cache; empty: nobody sets it."""

    def __init__(self, base: Path, made: dict[str, tuple[Remote, Data]], scale: Scale, setting: str) -> None:
        self._base, self._made, self._scale, self._setting = base, made, scale, setting

    def __enter__(self) -> list[Alone]:
        with ExitStack() as stack:
            alones = []
            for kind in self._scale.kinds:
                remote, data = self._made[kind.name]
                (base := self._base / kind.name).mkdir(parents=True)
                node = stack.enter_context(self._scale.place(base, remote, 2 * data.disk_bytes))
                node.set_cache(data, self._setting) if self._setting else node.register(data)
                with remote.used():
                    jobs = Jobs([specs(kind, data)], partial(node.dataset, data), data)
                    jobs.start()
                alones.append(Alone(kind, data, remote, node, jobs))
            self._stack = stack.pop_all()
        self._alones = alones
        return alones

    def __exit__(self, *_: object) -> None:
        with self._stack:  # servers end, too, when a job does not
            for one in self._alones:
                one.jobs.stop()
            for one in self._alones:
                one.jobs.join(30.0)


@dataclass(frozen=True)
class Rates:
    """Records/s: in the time in which the job reads, which is what a probe counts (decision 0022), and by the clock."""

    reading: float
    by_the_clock: float


def rates(alones: Sequence[Alone], counted_s: float) -> dict[str, Rates]:
    """From now on."""
    runs = [one.run for one in alones]
    before = [(time.monotonic(), len(run.arrived_s), run.records) for run in runs]
    time.sleep(counted_s)
    made = dict[str, Rates]()
    for run, (began, first, records) in zip(runs, before, strict=True):
        by_the_clock, last = (run.records - records) / (time.monotonic() - began), len(run.arrived_s) - 1
        # Of a batch between `first` and `last` all are whole.
        made[run.spec.name] = Rates(BATCH * (last - first) / run.read_s(first, last), by_the_clock)
    return made


def wait_for(condition: Any, deadline_s: float) -> float | None:
    """Seconds until it held; None: it never did."""
    began = time.monotonic()
    while time.monotonic() < began + deadline_s:
        if condition():
            return time.monotonic() - began
        time.sleep(0.2)
    return None


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass
class Benefit:
    kind: Kind
    miss: Rates
    hit: Rates
    probe: dict[str, Any] | None
    probed_after_s: float | None
    every_record_once: bool

    @property
    def true(self) -> float:
        return self.hit.reading / self.miss.reading

    @property
    def by_the_clock(self) -> float:
        return self.hit.by_the_clock / self.miss.by_the_clock

    @property
    def error(self) -> float:
        return abs(self.probe["benefit"]["value"] / self.true - 1) if self.probe else float("inf")


def alone(base: Path, made: dict[str, tuple[Remote, Data]], scale: Scale) -> list[Benefit]:
    runs: list[JobRun] = []
    if not scale.quick:
        with Alones(base / "miss", made, scale, "none") as alones:
            time.sleep(_UNTIL_FULL_S)
            missing = rates(alones, scale.counted_s)
            runs = [one.run for one in alones]
    with Alones(base / "probed", made, scale, "") as alones:
        began, probes, after = time.monotonic(), dict[str, dict[str, Any]](), dict[str, float]()
        if scale.quick:
            if wait_for(lambda: all(one.run.records for one in alones), scale.probed_s) is None:
                raise TimeoutError(f"no job has read anything within {scale.probed_s:.0f} s")
            time.sleep(_UNTIL_FULL_S)
            missing = rates(alones, 2 * scale.counted_s)
        while len(probes) < len(alones) and time.monotonic() < began + scale.probed_s:
            time.sleep(0.5)
            for one in alones:
                if one.kind.name not in probes and (probe := one.probe()):
                    probes[one.kind.name], after[one.kind.name] = probe, time.monotonic() - began
        wait_for(lambda: all(len(one.run.complete_epochs) > 1 for one in alones), 60.0)
        hitting = rates(alones, scale.counted_s)
        runs += [one.run for one in alones]
    return [
        Benefit(
            kind, missing[kind.name], hitting[kind.name], probes.get(kind.name), after.get(kind.name),
            all(run.every_record_once for run in runs if run.spec.name == kind.name),
        )
        for kind in scale.kinds
    ]  # fmt: skip


def one_by_one(base: Path, made: dict[str, tuple[Remote, Data]], scale: Scale) -> list[Benefit]:
    """Each with its store as this process's until it has ended: workers are told how to reach it while they read."""
    benefits = list[Benefit]()
    for kind in scale.kinds:
        with made[kind.name][0].used():
            (own := base / f"only-{kind.name}").mkdir()
            benefits += alone(own, made, replace(scale, kinds=(kind,)))
        table(benefits, None)
    return benefits


@dataclass
class Decision:
    """`None`: not within the time that there was."""

    cached_after_s: float | None  # the data set of the job that gains most, whole
    stayed: bool
    given_after_s: float | None  # its room to another one, since it has ended
    ended: str
    every_record_once: bool


def together(base: Path, scale: Scale) -> Decision:
    with ExitStack() as stack:
        remote = stack.enter_context(Remote.start(base / "stores", 3 * STORE_BYTES_PER_S))
        data = {kind: add(remote, kind, scale) for kind in KINDS}
        first, others = KINDS[0], KINDS[1:]
        (own := base / "together").mkdir()
        node = stack.enter_context(scale.place(own, remote, round(1.1 * data[first].disk_bytes)))
        jobs = {}
        stack.enter_context(remote.used())  # until the end: how to reach the store is told again while jobs read
        for kind in reversed(KINDS):  # who gains most comes last
            node.register(data[kind])
            jobs[kind] = Jobs([specs(kind, data[kind])], partial(node.dataset, data[kind]), data[kind])
            jobs[kind].start()

        def has(kind: Kind) -> bool:
            return node.cached(data[kind]).allocation_bytes >= 0.9 * data[kind].disk_bytes

        cached_after_s = wait_for(lambda: has(first), scale.probed_s)
        time.sleep(15.0)
        stayed = has(first)
        jobs[first].stop()
        given_after_s = wait_for(lambda: any(has(kind) for kind in others), 2 * GIVEN_BACK_S)
        for one in jobs.values():
            one.stop()
        runs = [run for one in jobs.values() for run in one.join(30.0)]
        ended = ", ".join(
            f"{kind.name} {node.cached(data[kind]).allocation_bytes / data[kind].disk_bytes:.0%}" for kind in KINDS
        )
    return Decision(cached_after_s, stayed, given_after_s, ended, all(run.every_record_once for run in runs))


def add(remote: Remote, kind: Kind, scale: Scale) -> Data:
    records_a_file = scale.shards * SHARD_RECORDS // FILES
    return remote.add(kind.name, FILES, records_a_file, RECORD_BYTES, SHARD_RECORDS)


def bars(benefits: Sequence[Benefit], decision: Decision | None) -> list[Bar]:
    made = [
        Bar(f"{one.kind.name}: error of the measured benefit, a share of {one.true:.2f}", one.error, WITHIN, True)
        for one in benefits
    ]
    once = [one.every_record_once for one in benefits]
    if decision:
        once.append(decision.every_record_once)
        has_it = int(decision.cached_after_s is not None and decision.stayed)
        made.append(Bar("who gains most has the cache, and keeps it", has_it, 1))
        given_after_s = float("inf") if decision.given_after_s is None else decision.given_after_s
        made.append(Bar("its room is given to another, s after its end", given_after_s, GIVEN_BACK_S, True))
    return [*made, Bar("parts with every record exactly once an epoch", sum(once), len(once))]


def table(benefits: Sequence[Benefit], decision: Decision | None) -> None:
    say("\n| job | missing, records/s | hitting | true benefit | by the clock | probed | interval | by | after |")
    say("|---|--:|--:|--:|--:|--:|---|---|--:|")
    for one in benefits:
        miss, hit = one.miss.reading, one.hit.reading
        rates = f"{one.kind.name} | {miss:,.0f} | {hit:,.0f} | {one.true:.2f} | {one.by_the_clock:.2f}"
        if one.probe is None or one.probed_after_s is None:
            say(f"| {rates} | not within the time | | | |")
            continue
        benefit = one.probe["benefit"]
        interval = f"{benefit['low']:.2f} to {benefit['high']:.2f} | {one.probe['basis']} | {one.probed_after_s:.0f} s"
        say(f"| {rates} | {benefit['value']:.2f} | {interval} |")
    if decision:
        say(f"\ntogether: {decision}")
    say("")


def main() -> None:
    parser = quick_parser(__doc__, "one job alone, less than 60 s")
    parser.add_argument("--service", action="store_true", help="through tf.data service")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    scale = replace(QUICK if arguments.quick else FULL, service=arguments.service)
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as name, ExitStack() as stack:
        base, made = Path(name), dict[str, tuple[Remote, Data]]()
        for kind in scale.kinds:
            remote = stack.enter_context(Remote.start(base / f"store-{kind.name}", STORE_BYTES_PER_S))
            made[kind.name] = remote, add(remote, kind, scale)
        benefits = one_by_one(base, made, scale) if scale.service else alone(base, made, scale)
        decision = None if scale.quick else together(base, scale)
    table(benefits, decision)
    figures = {
        "service": scale.service,
        "alone": {
            one.kind.name: {
                "true": one.true,
                "by_the_clock": one.by_the_clock,
                "probe": one.probe,
                "probed_after_s": one.probed_after_s,
            }
            for one in benefits
        },
        "together": asdict(decision) if decision else None,
    }
    finish("probing", figures, bars(benefits, decision), scale.quick)


if __name__ == "__main__":
    run_bench(main)
