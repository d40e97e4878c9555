"""What leaves the store, and how fast jobs run, for cache shares from 5 to 100 %: chunks in rotation against LRU.

Jobs with slept steps read one data set again and again, in step (they start together and are equally fast) or out of
step (random starts, speeds within a factor of two; or one of four is ten times slower). The store delivers two and a
half data sets in the time of the fastest job's epoch. Counted is what it delivers from the end of the fastest job's
warm-up on (everything that is read at first comes from the store), as data-set sizes per epoch of the fastest job.
(1 - c), with c the cache's share of the data set, is the least that jobs in step can do with.

Beside each figure stands that of the simulator (`python -m tfquiver.service.sim.main`) for the same scenario: the same
rotation, without the time that orders and reports take on their way.

    python -m tests.bench.lru_collapse [--quick] [--out DIR]

Bars hold for `relevance`, from 20 % on where jobs are out of step: with less, the rotation itself needs more, as the
simulator shows. Every job counts its records: each exactly once an epoch, in every run.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.bench.bars import Bar, finish
from tests.bench.experiment import cell, plots
from tests.bench.experiment.cell import ALL_CACHED, CYCLIC, LRU, RELEVANCE, Crowd, Outcome, Way
from tests.bench.experiment.remote import Data, Remote
from tfquiver.service.sim import scenario

STORE_SPEED = 2.5  # data sets in an epoch of the fastest job
SHARD_RECORDS, RECORD_BYTES, FILES, BATCH = 16, 4080, 8, 32
SHARDS_A_CHUNK = 5
WAYS = (RELEVANCE, CYCLIC, LRU)
IN_STEP_BAR, OUT_OF_STEP_BAR, SLOWDOWN_BAR, COLLAPSE_BAR = 1.05, 1.10, 1.05, 2.5
OUT_OF_STEP_LEAST_SHARE = 0.2
SEED = 1


@dataclass(frozen=True)
class Scale:
    chunks: int  # of relevance
    epoch_s: float  # of the fastest job
    epochs: int  # counted
    at_once: int  # runs side by side, each with a store, a coordinator and a node of its own


FULL = Scale(chunks=80, epoch_s=8.0, epochs=2, at_once=2)
QUICK = Scale(chunks=40, epoch_s=5.0, epochs=1, at_once=2)


@dataclass(frozen=True)
class Point:
    crowd: Crowd
    way: Way
    share: float
    warm_up: int

    @property
    def in_step(self) -> bool:
        return len(set(zip(self.crowd.speeds, self.crowd.offsets, strict=True))) == 1

    @property
    def barred(self) -> bool:
        return self.way is RELEVANCE and (self.in_step or self.share >= OUT_OF_STEP_LEAST_SHARE)

    @property
    def floor(self) -> float:
        return 1.0 - self.share

    @property
    def label(self) -> str:
        return f"{self.crowd.name}, {self.share:.0%}, {self.way.name}"

    def chunks(self, scale: Scale) -> int:
        """Of cyclic so many that two have room."""
        return ceil(2 / self.share - 1e-9) if self.way is CYCLIC else scale.chunks

    def simulated(self, scale: Scale) -> scenario.Outcome:
        made = scenario.Scenario(self.crowd.name, self.crowd.speeds, self.crowd.offsets, STORE_SPEED)
        chunks = self.chunks(scale)
        order = self.way.rotation or "lru"
        return scenario.run(made, order, SEED, scale.epochs, warm_up=self.warm_up, share=self.share, chunks=chunks)


def in_step(jobs: int, scale: Scale) -> Crowd:
    return Crowd(f"{jobs} in step" if jobs > 1 else "1 job", (1.0,) * jobs, (0.0,) * jobs, scale.epoch_s)


def out_of_step(jobs: int, scale: Scale) -> Crowd:
    """Speeds of 1 to 2, the fastest of just 2 so that all crowds are counted over epochs of the same length."""
    rng = random.Random(f"{SEED} {jobs}")
    speeds = (2.0, *(rng.uniform(1.0, 2.0) for _ in range(jobs - 1)))
    return Crowd(f"{jobs} out of step", speeds, tuple(rng.random() for _ in range(jobs)), 2 * scale.epoch_s)


def one_slow(scale: Scale) -> Crowd:
    rng = random.Random(f"{SEED} slow")
    return Crowd("3 and one 10x slower", (1.0, 1.0, 1.0, 0.1), tuple(rng.random() for _ in range(4)), scale.epoch_s)


def full_points(scale: Scale) -> list[Point]:
    found = []
    for share in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0):
        found += [Point(in_step(4, scale), way, share, 1) for way in WAYS]
    for share in (0.1, 0.2, 0.5):
        found += [Point(in_step(1, scale), way, share, 1) for way in WAYS]
        found += [Point(in_step(8, scale), way, share, 1) for way in WAYS]
        found += [Point(out_of_step(4, scale), way, share, 2) for way in WAYS]
    found += [Point(out_of_step(8, scale), way, 0.2, 2) for way in WAYS]
    found += [Point(one_slow(scale), way, 0.2, 2) for way in WAYS]
    return found


def quick_points(scale: Scale) -> list[Point]:
    found = [Point(in_step(4, scale), way, 0.2, 1) for way in WAYS]
    return [*found, Point(out_of_step(4, scale), RELEVANCE, 0.2, 2)]


Results = dict[Point, Outcome]


def measure(base: Path, points: Sequence[Point], scale: Scale) -> tuple[Results, float]:
    """What came of each point; and how long the fastest job's epoch is alone with everything cached, in seconds."""
    shards = scale.chunks * SHARDS_A_CHUNK
    shard_bytes = SHARD_RECORDS * (RECORD_BYTES + 16)
    bytes_per_s = STORE_SPEED * shards * shard_bytes / scale.epoch_s
    idle: SimpleQueue[tuple[Remote, Data]] = SimpleQueue()
    with ExitStack() as stack:
        for number in range(scale.at_once):
            remote = stack.enter_context(Remote.start(base / f"remote-{number}", bytes_per_s))
            records_a_file = shards * SHARD_RECORDS // FILES
            idle.put((remote, remote.add("records", FILES, records_a_file, RECORD_BYTES, SHARD_RECORDS)))

        def one(point: Point) -> Outcome:
            remote, data = idle.get()
            try:
                chunks = point.chunks(scale) if point.way.rotation else 0
                outcome = cell.run(
                    remote, data, point.crowd, point.way, point.share, batch=BATCH, chunks=chunks,
                    warm_up=point.warm_up, epochs=scale.epochs,
                )  # fmt: skip
            finally:
                idle.put((remote, data))
            say(f"{point.label}: {outcome.loads:.3f} data sets, epoch {outcome.epoch_s:.2f} s")
            return outcome

        alone = Point(in_step(1, scale), ALL_CACHED, 1.0, 1)
        with ThreadPoolExecutor(scale.at_once) as pool:
            outcomes = list(pool.map(one, [alone, *points]))
    return dict(zip(points, outcomes[1:], strict=True)), outcomes[0].epoch_s


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(results: Results, alone_s: float, scale: Scale) -> None:
    say("\n| jobs | cache | way | from the store | of (1 - c) | simulated | fastest job's epoch | all records/s |")
    say("|---|--:|---|--:|--:|--:|--:|--:|")
    for point, outcome in results.items():
        of_floor = f"{outcome.loads / point.floor:.2f}" if point.floor else "-"
        simulated = point.simulated(scale).loads
        say(
            f"| {point.crowd.name} | {point.share:.0%} | {point.way.name} | {outcome.loads:.3f} | {of_floor} "
            f"| {simulated:.3f} | {outcome.epoch_s / alone_s:.2f} | {outcome.records_per_s:,.0f} |"
        )
    say("")


def bars(results: Results, alone_s: float) -> list[Bar]:
    made = []
    for kind, bar in ((True, IN_STEP_BAR), (False, OUT_OF_STEP_BAR)):
        chosen = [point for point in results if point.barred and point.in_step is kind and point.floor]
        worst = max(chosen, key=lambda point: results[point].loads / point.floor)
        figure = results[worst].loads / worst.floor
        made.append(Bar(f"bytes / (1 - c), worst {'in' if kind else 'out of'} step: {worst.label}", figure, bar, True))
    whole = [outcome.loads for point, outcome in results.items() if point.way is RELEVANCE and not point.floor]
    if whole:
        made.append(Bar("data sets an epoch where everything fits", max(whole), 0.01, at_most=True))
    worst = max((point for point in results if point.barred), key=lambda point: results[point].epoch_s)
    slowdown = results[worst].epoch_s / alone_s
    made.append(Bar(f"fastest job's epoch / alone, all cached; worst: {worst.label}", slowdown, SLOWDOWN_BAR, True))
    collapse = next(p for p in results if p.way is LRU and p.in_step and len(p.crowd.speeds) == 4 and p.share == 0.2)
    made.append(Bar(f"bytes / (1 - c), {collapse.label}", results[collapse].loads / collapse.floor, COLLAPSE_BAR))
    checked = sum(outcome.every_record_once for outcome in results.values())
    made.append(Bar("runs with every record exactly once an epoch", checked, len(results)))
    return made


def draw(results: Results, alone_s: float, records: int, out: Path) -> Path:
    drawn, axes = plots.figure(2, 2, 8.0, 5.6, sharex=True)
    for column, kind in enumerate((True, False)):
        above, below = axes[0][column], axes[1][column]
        above.set_title("in step" if kind else "out of step: speeds 1-2x, random starts")
        for jobs, line in ((1, ":"), (4, "-"), (8, "--")):
            for way in WAYS:
                chosen = sorted(
                    (p for p in results if p.in_step is kind and p.way is way and len(p.crowd.speeds) == jobs
                     and min(p.crowd.speeds) > 0.5),
                    key=lambda p: p.share,
                )  # fmt: skip
                if not chosen:
                    continue
                shares = [100 * p.share for p in chosen]
                ideal = [sum(p.crowd.speeds) / max(p.crowd.speeds) * records / alone_s for p in chosen]
                style = {"color": plots.COLOURS[way.name], "linestyle": line, "marker": "o"}
                name = f"{way.name}, {jobs} job{'s' if jobs > 1 else ''}"
                above.plot(shares, [results[p].loads for p in chosen], label=name, **style)
                below.plot(shares, [100 * results[p].records_per_s / i for p, i in zip(chosen, ideal, strict=True)],
                           label=name, **style)  # fmt: skip
        above.plot([0, 100], [1, 0], color=plots.COLOURS["floor"], linewidth=0.8, label="1 - c")
        above.set_ylim(bottom=0)
        below.set_ylim(0, 110)
        below.set_xlabel("cache, % of the data set")
    axes[0][0].set_ylabel("from the store, data sets\nper epoch of the fastest job")
    axes[1][0].set_ylabel("all jobs' throughput,\n% of that with everything cached")
    axes[0][0].legend(ncols=2)
    return plots.save(drawn, out, "lru_collapse")


def figures(results: Results, alone_s: float) -> dict[str, Any]:
    rows = [
        {"jobs": p.crowd.name, "share": p.share, "way": p.way.name, **o.as_json(),
         "slowdown": round(o.epoch_s / alone_s, 4)}
        for p, o in results.items()
    ]  # fmt: skip
    return {"alone_epoch_s": round(alone_s, 3), "store_speed": STORE_SPEED, "runs": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four runs with fewer chunks, less than 60 s")
    parser.add_argument("--out", type=Path, default=plots.DEFAULT_OUT, metavar="DIR", help="where the plot goes")
    parser.add_argument("--only", default="", metavar="TEXT", help="only points whose label has this part; no bars")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    scale = QUICK if arguments.quick else FULL
    points = (quick_points if arguments.quick else full_points)(scale)
    points = [point for point in points if arguments.only in point.label]
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
        results, alone_s = measure(Path(base), points, scale)
    table(results, alone_s, scale)
    if arguments.only:
        return
    if not arguments.quick:
        say(str(draw(results, alone_s, scale.chunks * SHARDS_A_CHUNK * SHARD_RECORDS, arguments.out)))
    finish("lru_collapse", figures(results, alone_s), bars(results, alone_s), arguments.quick)


if __name__ == "__main__":
    main()
