"""Every kind of process killed at random times: under `exactly_once` the trainer sees every record once, every epoch.

A coordinator, a node, a dispatcher, two tf.data service workers and a store that fails: tests/bench/torment.py. Each
epoch has its own trouble, drawn from a seed that is printed: those that both guarantees live through, and

* for good: one worker is killed and stays away until the epoch has ended;
* nobody left: both are killed and stay away: the trainer reads the rest by itself;
* after the end: both are killed when their session has ended but the trainer has not had everything yet;
* no dispatcher: it is killed before the epoch begins, or in it, and stays away until the epoch has ended;
* workers asleep: both are stopped before the epoch begins, until it has ended.

At the end the same pipeline is run without trouble, once under each guarantee, several times in turn: what
exactly_once costs. 200 kills take about ten minutes on two cores.

    python -m tests.bench.exactly_once [--quick] [--kills N] [--seed N]

Bars: no record lost, none twice, no error, no wait of the trainer (for its first batch, for the next, for the end)
longer than the takeover time and ten seconds, at least 200 kills (10 with --quick),
and answers of the store that failed.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import tensorflow as tf

import tfquiver
from tests.bench import torment
from tests.bench.bars import Bar, finish, run_bench
from tests.support import numbered

TAKEOVER_S = 1.0
LONGEST_WAIT_S = TAKEOVER_S + 10.0
COMMON = ("one worker", "both workers", "nobody left", "after the end", "no dispatcher")  # twice as often as the others
COST_FILES, COST_RECORDS_A_FILE, COST_RECORD_BYTES, COST_BATCH = 4, 75_000, 250, 256


class Troubles(torment.Troubles):
    def __init__(self, world: torment.World, rng: random.Random) -> None:
        super().__init__(world, rng)
        self.kinds |= {
            "for good": self.for_good,
            "nobody left": self.nobody_left,
            "after the end": self.after_the_end,
            "no dispatcher": self.no_dispatcher,
            "workers asleep": lambda reader: None,
        }
        self.before |= {"no dispatcher": self.maybe_without, "workers asleep": self.asleep}

    def for_good(self, reader: torment.Reader) -> None:
        self.some_time(reader)
        self.world.kill(self.rng.choice(["worker 0", "worker 1"]))

    def nobody_left(self, reader: torment.Reader) -> None:
        self.some_time(reader)
        self.world.kill("worker 0", "worker 1")

    def after_the_end(self, reader: torment.Reader) -> None:
        self.await_end(reader)
        self.world.kill("worker 0", "worker 1")

    def maybe_without(self) -> None:
        if self.rng.random() < 0.5:
            self.world.kill("dispatcher")

    def no_dispatcher(self, reader: torment.Reader) -> None:
        """With a worker, sometimes."""
        self.some_time(reader)
        self.world.kill("dispatcher", *self.rng.choice([[], ["worker 0"], ["worker 1"]]))

    def asleep(self) -> Callable[[], None]:
        held = ExitStack()
        held.enter_context(self.world.stopped("worker 0", "worker 1"))
        return held.close


def pipeline(world: torment.World, paths: list[Any], guarantee: str, batch: int, **arguments: Any) -> tf.data.Dataset:
    read = tfquiver.dataset(
        paths,
        service=world.coordinator.address,
        cache_dir=world.cluster.cache_dir,
        batch_size=batch,
        **arguments,
    )
    once = tfquiver.distribute(
        world.dispatcher.address, compression=None, guarantee=guarantee, takeover_timeout_s=TAKEOVER_S
    )
    return read.apply(once)


def cost(world: torment.World, base: Path, rounds: int) -> dict[str, float]:
    """Records a second without trouble, under both guarantees in turn; the first round warms up."""
    paths = numbered.write(base / "cost", COST_FILES, COST_RECORDS_A_FILE, COST_RECORD_BYTES)
    made = {name: pipeline(world, paths, name, COST_BATCH) for name in ("at_least_once", "exactly_once")}
    speeds: dict[str, list[float]] = {name: [] for name in made}
    for number in range(rounds + 1):
        for name, dataset in made.items():
            times, records = [], 0
            for batch in dataset:
                times.append(time.monotonic())
                records += batch.shape[0]
            assert records == COST_FILES * COST_RECORDS_A_FILE, f"{name}: {records} records"
            # From the first batch to the last: what the service takes to start and to end is the same for both.
            if number:
                speeds[name].append(records / (times[-1] - times[0]))
    return {name: statistics.median(values) for name, values in speeds.items()}


def main() -> None:
    arguments = torment.arguments(__doc__)
    before = tfquiver.delivery_stats()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as folder, torment.World(Path(folder)) as world:
        shared = pipeline(
            world, world.uris(), "exactly_once", torment.BATCH, first_use=tfquiver.FirstUse(cut=torment.CUT),
            order=tfquiver.Shuffled(shuffle_bytes=torment.POOL_BYTES),
            reading=tfquiver.Reading(readahead_bytes=torment.READAHEAD_BYTES),
        )  # fmt: skip
        troubles = Troubles(world, random.Random(arguments.seed))
        torment.run(world, troubles, shared, arguments.kills, COMMON)
        torment_s = time.monotonic() - began
    after = tfquiver.delivery_stats()
    with (
        tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as folder,
        torment.World(Path(folder), failing=False) as calm,
    ):
        speeds = cost(calm, Path(folder), rounds=2 if arguments.quick else 5)
    tally = world.tally
    figures = {
        "seed": arguments.seed,
        **tally.figures(),
        "dropped": after.duplicates - before.duplicates,
        "mopped_up": after.mopped_up - before.mopped_up,
        "takeovers": after.takeovers - before.takeovers,
        "torment_s": round(torment_s, 1),
        "records_per_s": {name: round(speed) for name, speed in speeds.items()},
        "exactly_once / at_least_once": round(speeds["exactly_once"] / speeds["at_least_once"], 3),
    }
    bars = [
        Bar("records lost", tally.lost, 0, at_most=True),
        Bar("records twice", tally.duplicates, 0, at_most=True),
        Bar("errors", sum(tally.errors.values()) + sum(tally.untyped.values()), 0, at_most=True),
        Bar("epochs that did not end", tally.late, 0, at_most=True),
        Bar("longest wait (s)", max(tally.longest_wait_s.values()), LONGEST_WAIT_S, at_most=True),
        Bar("kills", tally.kills, arguments.kills),
        Bar("store faults", tally.store_faults, 0 if arguments.quick else torment.FULL_STORE_FAULTS),
        Bar("epochs delivered whole", after.epochs - before.epochs, sum(tally.epochs.values())),
    ]
    finish("exactly_once", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
