"""Every kind of process killed at random times: through the stock client every record comes, every epoch.

What is killed, stopped with SIGSTOP, or made to fail (the object store): tests/bench/torment.py. Here also, twice as
often as the rest, "after the end": both workers are killed, alone or with others, when their session has ended and the
trainer has not had everything yet; they come back. The trainer reads one epoch after the other through
`tf.data.experimental.service.distribute`. An epoch may bring records twice, and may end in a typed error.
200 kills take about ten minutes on two cores.

    python -m tests.bench.at_least_once [--quick] [--kills N] [--seed N]

Bars: no record lost, no error without a type, no epoch that never ends, at least 200 kills (10 with --quick), and
answers of the store that failed.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

import tfquiver
from tests.bench import torment
from tests.bench.bars import Bar, finish, run_bench

COMMON = ("after the end",)  # twice as often as the others
HOLD_BACK = 16  # batches that are on their way between the source and the trainer


class Troubles(torment.Troubles):
    def __init__(self, world: torment.World, rng: random.Random) -> None:
        super().__init__(world, rng)
        self.kinds |= {
            "one for good": self.one_for_good,
            "begun without": self.begun_without,
            "after the end": self.after_the_end,
        }
        self.before |= {"begun without": self.without}

    def one_for_good(self, reader: torment.Reader) -> None:
        self.some_time(reader)
        self.world.kill(self.rng.choice(["worker 0", "worker 1"]))

    def after_the_end(self, reader: torment.Reader) -> None:
        self.await_end(reader)
        others = self.rng.choice([[], ["dispatcher"], ["node"], ["coordinator"], ["coordinator", "node", "dispatcher"]])
        self.world.kill("worker 0", "worker 1", *others)
        self.a_while()
        self.world.start()

    def without(self) -> Callable[[], None] | None:
        """The epoch begins while one of them is away."""
        self.world.kill(self.rng.choice(["dispatcher", "worker 0", "node", "coordinator"]))
        return None

    def begun_without(self, reader: torment.Reader) -> None:
        time.sleep(self.rng.uniform(0, 1.0))
        self.world.start()


def main() -> None:
    arguments = torment.arguments(__doc__)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as folder, torment.World(Path(folder)) as world:
        read = tfquiver.dataset(
            world.uris(),
            service=world.coordinator.address,
            first_use=tfquiver.FirstUse(cut=torment.CUT),
            batch_size=torment.BATCH,
            order=tfquiver.Shuffled(shuffle_bytes=torment.POOL_BYTES),
            reading=tfquiver.Reading(readahead_bytes=torment.READAHEAD_BYTES, hold_back=HOLD_BACK),
        )
        dynamic = tf.data.experimental.service.ShardingPolicy.DYNAMIC
        stock = tf.data.experimental.service.distribute(dynamic, f"grpc://{world.dispatcher.address}", compression=None)
        torment.run(world, Troubles(world, random.Random(arguments.seed)), read.apply(stock), arguments.kills, COMMON)
    tally = world.tally
    figures = {"seed": arguments.seed, **tally.figures(), "torment_s": round(time.monotonic() - began, 1)}
    bars = [
        Bar("records lost", tally.lost, 0, at_most=True),
        Bar("untyped errors", sum(tally.untyped.values()), 0, at_most=True),
        Bar("epochs that did not end", tally.late, 0, at_most=True),
        Bar("kills", tally.kills, arguments.kills),
        Bar("store faults", tally.store_faults, 0 if arguments.quick else torment.FULL_STORE_FAULTS),
    ]
    finish("at_least_once", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
