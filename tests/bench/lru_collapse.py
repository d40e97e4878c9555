"""What leaves the store, and how fast jobs run, for cache shares from 5 to 100 %: chunks in rotation against LRU.

Jobs with slept steps read one data set again and again, in step (they start together and are equally fast) or out of
step (random starts, speeds within a factor of two; or one of four is ten times slower). The store delivers two and a
half data sets in the time of the fastest job's epoch. Counted is what it delivers from the end of the fastest job's
warm-up on (everything that is read at first comes from the store), as data-set sizes per epoch of the fastest job.
(1 - c), with c the cache's share of the data set, is the least that jobs in step can do with.

Beside each figure stands that of the simulator (`python -m tfquiver.service.sim.shard_by_shard`) for the same
scenario: the same rotation, without the time that orders and reports take on their way.

    python -m tests.bench.lru_collapse [--quick] [--out DIR]

Bars hold for `relevance`, from 20 % on where jobs are out of step: with less, the rotation itself needs more, as the
simulator shows. Every job counts its records: each exactly once an epoch, in every run.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.experiment import cell, plots
from tests.bench.experiment.cell import ALL_CACHED, CYCLIC, LRU, RELEVANCE, Crowd, Outcome, Way
from tests.bench.experiment.remote import Remote
from tfquiver.service.sim.shard_by_shard import scenario

STORE_SPEED = 2.5  # data sets in an epoch of the fastest job
SHARDS, SHARD_RECORDS, RECORD_BYTES, FILES, BATCH = 400, 16, 4080, 8, 32
CHUNKS, CHUNKS_APART = 40, 80  # of relevance; out of step up to eight jobs read different ones
WAYS = (RELEVANCE, CYCLIC, LRU)
IN_STEP_BAR, OUT_OF_STEP_BAR, SLOWDOWN_BAR, COLLAPSE_BAR = 1.05, 1.10, 1.05, 2.5
OUT_OF_STEP_LEAST_SHARE, TIMED_LEAST_SHARE = 0.2, 0.1
SEED = 1


@dataclass(frozen=True)
class Scale:
    """Epochs of the fastest job: how long, and how many are counted. Out of step each job waits for chunks of its own:
    there it matters more how long an order is on its way."""

    in_step_s: float
    in_step_epochs: int
    out_of_step_s: float
    out_of_step_epochs: int
    timed_out_of_step: bool


FULL = Scale(6.0, 2, 12.0, 3, True)
QUICK = Scale(4.0, 1, 4.0, 2, False)


@dataclass(frozen=True)
class Point:
    crowd: Crowd
    way: Way
    share: float
    epochs: int
    timed: bool = True

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

    @property
    def chunks(self) -> int:
        """Of cyclic so many that two have room."""
        if self.way is CYCLIC:
            return ceil(2 / self.share - 1e-9)
        return CHUNKS if self.in_step else CHUNKS_APART

    @property
    def warm_up(self) -> int:
        """In two epochs of the fastest job all others have begun."""
        return 1 if self.in_step else 2

    def simulated(self) -> scenario.Outcome:
        made = scenario.Scenario(self.crowd.name, self.crowd.speeds, self.crowd.offsets, STORE_SPEED)
        order = self.way.rotation or "lru"
        return scenario.run(made, order, SEED, self.epochs, warm_up=self.warm_up, share=self.share, chunks=self.chunks)


def in_step(jobs: int, scale: Scale) -> Crowd:
    return Crowd(f"{jobs} in step" if jobs > 1 else "1 job", (1.0,) * jobs, (0.0,) * jobs, scale.in_step_s)


def out_of_step(jobs: int, scale: Scale) -> Crowd:
    """Speeds of 1 to 2, the fastest of just 2 so that all crowds are counted over epochs of the same length."""
    rng = random.Random(f"{SEED} {jobs}")
    speeds = (2.0, *(rng.uniform(1.0, 2.0) for _ in range(jobs - 1)))
    return Crowd(f"{jobs} out of step", speeds, tuple(rng.random() for _ in range(jobs)), 2 * scale.out_of_step_s)


def one_slow(scale: Scale) -> Crowd:
    rng = random.Random(f"{SEED} slow")
    starts = tuple(rng.random() for _ in range(4))
    return Crowd("3 and one 10x slower", (1.0, 1.0, 1.0, 0.1), starts, scale.out_of_step_s)


def full_points(scale: Scale) -> list[Point]:
    """The long ones first."""

    def apart(crowd: Crowd, way: Way, share: float) -> Point:
        return Point(crowd, way, share, scale.out_of_step_epochs, scale.timed_out_of_step)

    def together(jobs: int, way: Way, share: float) -> Point:
        return Point(in_step(jobs, scale), way, share, scale.in_step_epochs)

    four = out_of_step(4, scale)
    points = [apart(crowd, way, 0.2) for crowd in (out_of_step(8, scale), one_slow(scale), four) for way in WAYS]
    points += [apart(four, way, share) for share in (0.1, 0.5) for way in (RELEVANCE, LRU)]
    points += [together(jobs, way, 0.2) for jobs in (8, 4, 1) for way in WAYS]
    points += [together(8, way, share) for share in (0.1, 0.5) for way in (RELEVANCE, LRU)]
    points += [together(4, way, share) for share in (0.05, 0.1, 0.4, 0.6, 0.8, 1.0) for way in (RELEVANCE, LRU)]
    return [*points, together(4, CYCLIC, 0.1), together(4, CYCLIC, 0.4)]


def quick_points(scale: Scale) -> list[Point]:
    apart = Point(out_of_step(4, scale), RELEVANCE, 0.2, scale.out_of_step_epochs, scale.timed_out_of_step)
    return [apart, *(Point(in_step(4, scale), way, 0.2, scale.in_step_epochs) for way in (RELEVANCE, LRU))]


@dataclass(frozen=True)
class Result:
    outcome: Outcome
    alone_s: float  # the fastest job's epoch alone with everything cached

    @property
    def loads(self) -> float:
        return self.outcome.loads

    @property
    def slowdown(self) -> float:
        return self.outcome.epoch_s / self.alone_s


Results = dict[Point, Result]


def measure(base: Path, points: Sequence[Point], scale: Scale) -> Results:
    results: Results = {}
    for crowds_epoch_s in sorted({point.crowd.fastest_epoch_s for point in points}, reverse=True):
        chosen = [point for point in points if point.crowd.fastest_epoch_s == crowds_epoch_s]
        alone = Point(Crowd("alone", (1.0,), (0.0,), crowds_epoch_s), ALL_CACHED, 1.0, scale.in_step_epochs)
        outcomes = _measure(base / f"{crowds_epoch_s:g}", [alone, *chosen])
        alone_s = outcomes[0].epoch_s
        results |= {point: Result(outcome, alone_s) for point, outcome in zip(chosen, outcomes[1:], strict=True)}
    return results


def _measure(base: Path, points: Sequence[Point]) -> list[Outcome]:
    """Of points whose fastest jobs are equally fast: they have stores of one byte rate."""
    shard_bytes = SHARD_RECORDS * (RECORD_BYTES + 16)
    bytes_per_s = STORE_SPEED * SHARDS * shard_bytes / points[0].crowd.fastest_epoch_s
    outcomes = []
    with Remote.start(base, bytes_per_s) as remote:
        records_a_file = SHARDS * SHARD_RECORDS // FILES
        data = remote.add("records", FILES, records_a_file, RECORD_BYTES, SHARD_RECORDS)
        for point in points:
            chunks = point.chunks if point.way.rotation else 0
            outcome = cell.run(
                remote, data, point.crowd, point.way, point.share, batch=BATCH, chunks=chunks,
                warm_up=point.warm_up, epochs=point.epochs,
            )  # fmt: skip
            say(f"{point.label}: {outcome.loads:.3f} data sets, epoch {outcome.epoch_s:.2f} s")
            outcomes.append(outcome)
    return outcomes


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(results: Results) -> None:
    say("\n| jobs | cache | way | from the store | of (1 - c) | simulated | fastest job's epoch | records/s of all |")
    say("|---|--:|---|--:|--:|--:|--:|--:|")
    for point, result in sorted(results.items(), key=lambda item: _order(item[0])):
        of_floor = f"{result.loads / point.floor:.2f}" if point.floor else "-"
        simulated = point.simulated()
        say(
            f"| {point.crowd.name} | {point.share:.0%} | {point.way.name} | {result.loads:.3f} | {of_floor} "
            f"| {simulated.loads:.3f} | {result.slowdown:.2f} ({simulated.slowdown:.2f}) "
            f"| {result.outcome.records_per_s:,.0f} |"
        )
    say("")


def _order(point: Point) -> tuple[Any, ...]:
    return not point.in_step, min(point.crowd.speeds) < 1, len(point.crowd.speeds), point.share, WAYS.index(point.way)


def bars(results: Results) -> list[Bar]:
    made = []
    for kind, bar in ((True, IN_STEP_BAR), (False, OUT_OF_STEP_BAR)):
        chosen = [point for point in results if point.barred and point.in_step is kind and point.floor]
        worst = max(chosen, key=lambda point: results[point].loads / point.floor)
        figure = results[worst].loads / worst.floor
        made.append(Bar(f"bytes / (1 - c), worst {'in' if kind else 'out of'} step: {worst.label}", figure, bar, True))
    whole = [result.loads for point, result in results.items() if point.way is RELEVANCE and not point.floor]
    if whole:
        made.append(Bar("data sets an epoch where everything fits", max(whole), 0.01, at_most=True))
    timed = [p for p in results if p.timed and p.way is RELEVANCE and p.share >= TIMED_LEAST_SHARE]
    worst = max(timed, key=lambda point: results[point].slowdown)
    name = f"fastest job's epoch / alone, all cached; worst: {worst.label}"
    made.append(Bar(name, results[worst].slowdown, SLOWDOWN_BAR, True))
    collapse = next(p for p in results if p.way is LRU and p.in_step and len(p.crowd.speeds) == 4 and p.share == 0.2)
    made.append(Bar(f"bytes / (1 - c), {collapse.label}", results[collapse].loads / collapse.floor, COLLAPSE_BAR))
    checked = sum(result.outcome.every_record_once for result in results.values())
    made.append(Bar("runs with every record exactly once an epoch", checked, len(results)))
    return made


def draw(results: Results, out: Path) -> Path:
    drawn, axes = plots.figure(2, 2, 8.0, 5.6, sharex=True)
    for column, kind in enumerate((True, False)):
        above, below = axes[0][column], axes[1][column]
        above.set_title("in step" if kind else "out of step: speeds 1-2x, random starts")
        for jobs, line, marker in ((1, ":", "s"), (4, "-", "o"), (8, "--", "^")):
            for way in WAYS:
                chosen = sorted((p for p in results if _shown(p, kind, jobs, way)), key=lambda p: p.share)
                if not chosen:
                    continue
                shares = [100 * p.share for p in chosen]
                style = {"color": plots.COLOURS[way.name], "linestyle": line, "marker": marker}
                name = f"{way.name}, {jobs} job{'s' if jobs > 1 else ''}"
                above.plot(shares, [results[p].loads for p in chosen], label=name, **style)
                below.plot(shares, [100 * _throughput(p, results[p]) for p in chosen], label=name, **style)
        above.plot([0, 100], [1, 0], color=plots.COLOURS["floor"], linewidth=0.8, label="1 - c")
        above.set_ylim(bottom=0)
        below.set_ylim(0, 110)
        below.set_xlabel("cache, % of the data set")
    axes[0][0].set_ylabel("from the store, data sets\nper epoch of the fastest job")
    axes[1][0].set_ylabel("all jobs' throughput,\n% of that with everything cached")
    drawn.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return plots.save(drawn, out, "lru_collapse")


def _shown(point: Point, kind: bool, jobs: int, way: Way) -> bool:
    alike = min(point.crowd.speeds) > 0.5
    return point.in_step is kind and point.way is way and len(point.crowd.speeds) == jobs and alike


def _throughput(point: Point, result: Result) -> float:
    """Of all jobs, as a part of what they would have if none ever waited."""
    epochs_at_once = sum(point.crowd.speeds) / max(point.crowd.speeds)
    return result.outcome.records_per_s * result.alone_s / (epochs_at_once * SHARDS * SHARD_RECORDS)


def figures(results: Results) -> dict[str, Any]:
    rows = [
        {"jobs": point.crowd.name, "share": point.share, "way": point.way.name, **result.outcome.as_json(),
         "slowdown": round(result.slowdown, 4)}
        for point, result in results.items()
    ]  # fmt: skip
    return {"store_speed": STORE_SPEED, "runs": rows}


def main() -> None:
    parser = quick_parser(__doc__, "three runs with short epochs, less than 60 s")
    parser.add_argument("--out", type=Path, default=plots.DEFAULT_OUT, metavar="DIR", help="where the plot goes")
    parser.add_argument("--only", default="", metavar="TEXT", help="only points whose label has this part; no bars")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    scale = QUICK if arguments.quick else FULL
    points = (quick_points if arguments.quick else full_points)(scale)
    points = [point for point in points if arguments.only in point.label]
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as base:
        results = measure(Path(base), points, scale)
    table(results)
    if arguments.only:
        return
    if not arguments.quick:
        say(str(draw(results, arguments.out)))
    finish("lru_collapse", figures(results), bars(results), arguments.quick)


if __name__ == "__main__":
    run_bench(main)
