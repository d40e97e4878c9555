"""Workers killed with SIGKILL at random times: under `exactly_once` the trainer sees every record once, every epoch.

A coordinator, a node, a dispatcher and two tf.data service workers; the trainer reads epoch after epoch of one data
set, counts every record, and each epoch has its own trouble, drawn from a seed that is printed:

* one: one worker at a time is killed and started again at its address, one to three times;
* for good: one worker is killed and stays away until the epoch has ended;
* both: both are killed at the same moment, and start again, together or one by one;
* nobody left: both are killed and stay away: the trainer reads the rest by itself;
* after the end: both are killed when their session has ended but the trainer has not had everything yet;
* between: a worker is killed between two epochs, and starts again or not;
* server: a worker is killed, and the dispatcher or the node with it (these are not counted as kills).

Workers are forks of a process that has TensorFlow imported (tests/support/worker_forks.py): the killed process is an
ordinary `tfquiver-worker`. At the end the same pipeline is run without trouble, once under each guarantee, several
times in turn: what exactly_once costs.

    python -m tests.bench.exactly_once [--quick] [--seed N]

Bars: no record lost, none twice, at least 200 kills (10 with --quick).
"""

from __future__ import annotations

import argparse
import random
import secrets
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import tensorflow as tf

import tfquiver
from tests.bench.bars import Bar, finish
from tests.support import numbered
from tests.support.cluster import Cluster, wait_until
from tests.support.worker_forks import Worker, WorkerForks
from tfquiver import CutPolicy
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc

FILES, RECORDS_A_FILE, RECORD_BYTES, BATCH = 4, 1500, 500, 20
TOTAL = FILES * RECORDS_A_FILE
CUT = CutPolicy(5_000, 10_000, 20_000)  # some 300 shards of 20 records
POOL_BYTES = READAHEAD_BYTES = 100_000
TAKEOVER_S = 1.0
STEP_S = 0.004  # an epoch of 300 steps takes 1.2 s and more
LONGEST_EPOCH_S = 60.0
COMMON = ("one", "both", "nobody left", "after the end")  # twice as often as the others
FULL_KILLS, QUICK_KILLS = 200, 10
COST_FILES, COST_RECORDS_A_FILE, COST_RECORD_BYTES, COST_BATCH = 4, 75_000, 250, 256


@dataclass
class Tally:
    kills: int = 0
    lost: int = 0
    duplicates: int = 0
    epochs: Counter[str] = field(default_factory=Counter)
    other_kills: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)


class Trouble:
    """Kills and starts the workers of one cluster; each method is one epoch's."""

    def __init__(self, cluster: Cluster, workers: list[Worker], rng: random.Random, tally: Tally) -> None:
        self._cluster, self._workers, self._rng, self._tally = cluster, workers, rng, tally
        self.kinds: dict[str, Callable[[numbered.EpochReader], None]] = {
            "one": self.one,
            "for good": self.for_good,
            "both": self.both,
            "nobody left": self.nobody_left,
            "after the end": self.after_the_end,
            "between": self.between,
            "server": self.server,
        }

    def start(self) -> None:
        """Every worker that is away."""
        away = [worker for worker in self._workers if not worker.alive]
        for worker in away:
            worker.launch()
        for worker in away:
            worker.await_ready()

    def one(self, reader: numbered.EpochReader) -> None:
        for _ in range(self._rng.randint(1, 3)):
            self._some_time(reader)
            worker = self._rng.choice(self._workers)
            self._kill(worker)
            time.sleep(self._rng.choice([0.0, self._rng.uniform(0, 0.5)]))
            worker.launch().await_ready()

    def for_good(self, reader: numbered.EpochReader) -> None:
        self._some_time(reader)
        self._kill(self._rng.choice(self._workers))

    def both(self, reader: numbered.EpochReader) -> None:
        self._some_time(reader)
        self._kill(*self._workers)
        time.sleep(self._rng.uniform(0, 0.5))
        if self._rng.random() < 0.5:
            self.start()
        else:
            self._rng.choice(self._workers).launch().await_ready()

    def nobody_left(self, reader: numbered.EpochReader) -> None:
        self._some_time(reader)
        self._kill(*self._workers)

    def after_the_end(self, reader: numbered.EpochReader) -> None:
        reader.reached(1)
        wait_until(lambda: self._session().ended, "the end of the workers' session", LONGEST_EPOCH_S)
        self._kill(*self._workers)

    def between(self, reader: numbered.EpochReader) -> None:
        reader.result(LONGEST_EPOCH_S)
        worker = self._rng.choice(self._workers)
        self._kill(worker)
        if self._rng.random() < 0.5:
            worker.launch().await_ready()

    def server(self, reader: numbered.EpochReader) -> None:
        self._some_time(reader)
        name, server = self._rng.choice([("dispatcher", self._cluster.dispatcher), ("node", self._cluster.node)])
        assert server is not None
        if self._rng.random() < 0.5:
            self._kill(self._rng.choice(self._workers))
        server.kill()
        self._tally.other_kills[name] += 1
        server.restart()

    def _some_time(self, reader: numbered.EpochReader) -> None:
        """Until a random record, and a random moment between that one and the next few."""
        reader.reached(self._rng.randrange(TOTAL), LONGEST_EPOCH_S)
        time.sleep(self._rng.uniform(0, 0.05))

    def _kill(self, *workers: Worker) -> None:
        self._tally.kills += sum(worker.kill() for worker in workers)

    def _session(self) -> coordinator_pb2.SessionInfo:
        """The newest that the workers share."""
        with grpc.insecure_channel(self._cluster.coordinator.address) as channel:
            stub = coordinator_pb2_grpc.CoordinatorStub(channel)
            request = coordinator_pb2.ListSessionsRequest(limit=20)
            return next(info for info in stub.ListSessions(request, timeout=10).sessions if info.session_key)


def pipeline(cluster: Cluster, paths: list[Path], guarantee: str, batch: int, **arguments: Any) -> tf.data.Dataset:
    assert cluster.dispatcher is not None
    read = tfquiver.dataset(
        paths, service=cluster.coordinator.address, cache_dir=cluster.cache_dir, batch_size=batch, **arguments
    )
    return read.apply(
        tfquiver.distribute(
            cluster.dispatcher.address, compression=None, guarantee=guarantee, takeover_timeout_s=TAKEOVER_S
        )
    )


def torment(cluster: Cluster, workers: list[Worker], base: Path, seed: int, kills: int) -> Tally:
    paths = numbered.write(base / "data", FILES, RECORDS_A_FILE, RECORD_BYTES)
    shared = pipeline(
        cluster, paths, "exactly_once", BATCH, cut=CUT, shuffle_bytes=POOL_BYTES, readahead_bytes=READAHEAD_BYTES
    )
    tally = Tally()
    rng = random.Random(seed)
    trouble = Trouble(cluster, workers, rng, tally)
    order: list[str] = []
    while tally.kills < kills:
        began = time.monotonic()
        order = order or rng.sample([*trouble.kinds, *COMMON], len(trouble.kinds) + len(COMMON))
        kind = order.pop()
        if kind not in ("between", "one") or rng.random() < 0.7:  # else with whoever is there
            trouble.start()
        reader = numbered.EpochReader(shared, step_s=STEP_S * rng.choice([0.5, 1, 2]))
        trouble.kinds[kind](reader)
        lost, duplicates = numbered.lost_and_duplicates(reader.result(LONGEST_EPOCH_S), TOTAL)
        tally.epochs[kind] += 1
        tally.seconds[kind] += round(time.monotonic() - began)
        tally.lost += lost
        tally.duplicates += duplicates
        if lost or duplicates:
            print(f"epoch {sum(tally.epochs.values())} ({kind}): {lost} lost, {duplicates} twice", file=sys.stderr)
        if sum(tally.epochs.values()) % 10 == 0:
            print(f"{tally.kills} kills, {sum(tally.epochs.values())} epochs", file=sys.stderr, flush=True)
    trouble.start()
    return tally


def cost(cluster: Cluster, base: Path, rounds: int) -> dict[str, float]:
    """Records a second without trouble, under both guarantees in turn; the first round warms up."""
    paths = numbered.write(base / "cost", COST_FILES, COST_RECORDS_A_FILE, COST_RECORD_BYTES)
    made = {name: pipeline(cluster, paths, name, COST_BATCH) for name in ("at_least_once", "exactly_once")}
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_KILLS} kills instead of {FULL_KILLS}")
    parser.add_argument("--kills", type=int, help=f"another number than {FULL_KILLS}")
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    arguments, _ = parser.parse_known_args()
    kills = arguments.kills or (QUICK_KILLS if arguments.quick else FULL_KILLS)
    print(f"--seed={arguments.seed}", file=sys.stderr, flush=True)
    flags = {"dispatcher": ["--reap_interval_ms=200", "--job_gc_check_interval_ms=1000", "--job_gc_timeout_ms=5000"]}
    before = tfquiver.delivery_stats()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tfquiver-bench-") as folder:
        base = Path(folder)
        with (
            Cluster(base / "cluster", workers=0, dispatcher=True, flags=flags) as cluster,
            WorkerForks(base / "forks.log") as forks,
        ):
            assert cluster.dispatcher is not None
            way = [f"--dispatcher={cluster.dispatcher.address}", f"--node_dir={cluster.cache_dir}"]
            way += ["--heartbeat_interval_ms=200"]
            workers = [forks.worker(way, base / f"worker-{number}.log") for number in range(2)]
            tally = torment(cluster, workers, base, arguments.seed, kills)
            torment_s = time.monotonic() - began
            after = tfquiver.delivery_stats()
            speeds = cost(cluster, base, rounds=2 if arguments.quick else 5)
            for worker in workers:
                worker.kill()
    epochs = sum(tally.epochs.values())
    figures = {
        "seed": arguments.seed,
        "kills": tally.kills,
        "epochs": epochs,
        "lost": tally.lost,
        "duplicates": tally.duplicates,
        "dropped": after.duplicates - before.duplicates,
        "mopped_up": after.mopped_up - before.mopped_up,
        "takeovers": after.takeovers - before.takeovers,
        "records": epochs * TOTAL,
        "epochs_by_trouble": dict(tally.epochs),
        "seconds_by_trouble": dict(tally.seconds),
        "other_kills": dict(tally.other_kills),
        "torment_s": round(torment_s, 1),
        "records_per_s": {name: round(speed) for name, speed in speeds.items()},
        "exactly_once / at_least_once": round(speeds["exactly_once"] / speeds["at_least_once"], 3),
    }
    bars = [
        Bar("records lost", tally.lost, 0, at_most=True),
        Bar("records twice", tally.duplicates, 0, at_most=True),
        Bar("kills", tally.kills, kills),
        Bar("epochs delivered whole", after.epochs - before.epochs, epochs),
    ]
    finish("exactly_once", figures, bars, arguments.quick)


if __name__ == "__main__":
    main()
