"""What the benches that kill share: a cluster over a store that fails, troubles drawn from a seed, and the tally.

A coordinator, a node whose quota holds half of the data, a dispatcher and two tf.data service workers; an object store
in this process, whose answers can be made to fail. The dispatcher and the workers are forks of a process that has
TensorFlow imported (tests/support/worker_forks.py): each that is killed is an ordinary server process.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google.cloud.storage
import grpc
import tensorflow as tf
from google.auth.credentials import AnonymousCredentials

from tests.support import gcs_emulator, numbered
from tests.support.cluster import Cluster, Server, wait_until
from tests.support.worker_forks import Worker, WorkerForks
from tfquiver import CutPolicy
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc

FILES, RECORDS_A_FILE, RECORD_BYTES, BATCH = 4, 1500, 500, 20
TOTAL = FILES * RECORDS_A_FILE
CUT = CutPolicy(5_000, 10_000, 20_000)  # some 300 shards of 20 records
QUOTA = "2MiB"  # of 3 MB, which take whole pages on the disk: the rest comes from the store in each epoch
POOL_BYTES = READAHEAD_BYTES = 100_000
STEP_S = 0.004  # an epoch of 300 steps takes 1.2 s and more
LONGEST_EPOCH_S = 60.0
GIVEN_UP_S = 180.0  # with all servers back; gRPC tries a server that was away again after two minutes at the latest
FULL_KILLS, QUICK_KILLS = 200, 10
FULL_STORE_FAULTS = 50  # fewer, and the store has not been tried

Reader = numbered.EpochReader
Act = Callable[[Reader], None]


@dataclass
class Tally:
    killed: Counter[str] = field(default_factory=Counter)
    stopped: Counter[str] = field(default_factory=Counter)
    store_faults: int = 0
    lost: int = 0
    duplicates: int = 0
    late: int = 0  # epochs that had not ended after LONGEST_EPOCH_S
    stuck: bool = False  # one had not ended after GIVEN_UP_S more: nothing can be said after it
    errors: Counter[str] = field(default_factory=Counter)  # epochs that ended in one of TensorFlow's, by its class
    untyped: Counter[str] = field(default_factory=Counter)  # in any other
    epochs: Counter[str] = field(default_factory=Counter)
    whole: int = 0  # epochs that ended without an error
    seconds: Counter[str] = field(default_factory=Counter)
    longest_wait_s: dict[str, float] = field(default_factory=dict)

    @property
    def kills(self) -> int:
        return sum(self.killed.values())

    def figures(self) -> dict[str, Any]:
        epochs = sum(self.epochs.values())
        return {
            "kills": self.kills,
            "killed": dict(self.killed),
            "stopped": dict(self.stopped),
            "store_faults": self.store_faults,
            "epochs": epochs,
            "whole_epochs": self.whole,
            "records": self.whole * TOTAL,
            "lost": self.lost,
            "duplicates": self.duplicates,
            "late": self.late,
            "stuck": self.stuck,
            "errors": dict(self.errors),
            "untyped": dict(self.untyped),
            "epochs_by_trouble": dict(self.epochs),
            "seconds_by_trouble": dict(self.seconds),
            "longest_wait_s_by_trouble": {kind: round(wait, 2) for kind, wait in self.longest_wait_s.items()},
        }


class World:
    """The servers. Use as a context manager; `start` brings back whoever is away, in the order that they need."""

    def __init__(self, base: Path, failing: bool = True) -> None:
        """`failing` False: to be measured without trouble, with room for everything."""
        self._base, self._failing, self._stack = base, failing, ExitStack()
        self._quota = QUOTA if failing else "1GiB"
        self.tally = Tally()

    def __enter__(self) -> World:
        with ExitStack() as stack:
            self.store = stack.enter_context(gcs_emulator.gcs_emulator())
            os.environ["STORAGE_EMULATOR_HOST"] = self.store.address
            stack.callback(os.environ.pop, "STORAGE_EMULATOR_HOST")
            # Little is leased ahead, and little kept in memory: else nothing is left to ask a store for that fails.
            flags = {"node": ["--hot=100KB", "--lease_ahead=100KB"]} if self._failing else {}
            cluster = Cluster(self._base / "cluster", workers=0, quota=self._quota, flags=flags)
            self.cluster = stack.enter_context(cluster)
            self.forks = stack.enter_context(WorkerForks())
            node_dir = f"--node_dir={self.cluster.cache_dir}"
            # A real worker is away for longer than the reaper takes from one look to the next: forks come back faster.
            lost = ["--worker_timeout_ms=2000", "--unread_task_timeout_ms=10000"]
            gc = ["--reap_interval_ms=50", "--job_gc_check_interval_ms=1000", "--job_gc_timeout_ms=5000"]
            self.dispatcher = self.forks.dispatcher(
                [f"--work_dir={self._base / 'dispatcher'}", node_dir, *lost, *gc],
                self._base / "dispatcher.log",
            )
            stack.callback(self.dispatcher.kill)
            self.dispatcher.launch().await_ready()
            self.workers = []
            for number in range(2):
                way = [f"--dispatcher={self.dispatcher.address}", node_dir, "--heartbeat_interval_ms=200"]
                worker = self.forks.worker(way, self._base / f"worker-{number}.log")
                stack.callback(worker.kill)
                self.workers.append(worker)
            self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    @property
    def node(self) -> Server:
        assert self.cluster.node is not None
        return self.cluster.node

    @property
    def coordinator(self) -> Server:
        return self.cluster.coordinator

    @property
    def everyone(self) -> dict[str, Server | Worker]:
        servers: dict[str, Server | Worker] = {
            "coordinator": self.coordinator, "node": self.node, "dispatcher": self.dispatcher
        }  # fmt: skip
        return servers | {f"worker {number}": worker for number, worker in enumerate(self.workers)}

    def start(self, *names: str) -> None:
        """Those of these names (all, when none is given) that are away."""
        for stage in (["coordinator"], ["node"], ["dispatcher"], ["worker 0", "worker 1"]):
            away = [self.everyone[name] for name in stage if (not names or name in names) and not self.alive(name)]
            for server in away:
                server.launch_again() if isinstance(server, Server) else server.launch()
            for server in away:
                server.await_ready()

    def alive(self, name: str) -> bool:
        server = self.everyone[name]
        return server.running if isinstance(server, Server) else server.alive

    def kill(self, *names: str) -> None:
        for name in names:
            if self.alive(name):
                self.everyone[name].kill()
                self.tally.killed[name.split()[0]] += 1

    def signal(self, name: str, number: signal.Signals) -> None:
        server = self.everyone[name]
        server.process.send_signal(number) if isinstance(server, Server) else server.signal(number)

    @contextmanager
    def stopped(self, *names: str) -> Iterator[None]:
        """SIGSTOP, and SIGCONT afterwards."""
        for name in names:
            self.signal(name, signal.SIGSTOP)
            self.tally.stopped[name.split()[0]] += 1
        try:
            yield
        finally:
            for name in names:
                self.signal(name, signal.SIGCONT)

    @contextmanager
    def bad_store(self, rng: random.Random) -> Iterator[None]:
        """Meanwhile every answer fails: with 503, with no answer, or with half of one."""
        kinds = [gcs_emulator.status(503), gcs_emulator.reset, gcs_emulator.cut_off]

        def weather() -> gcs_emulator.Fault:
            self.tally.store_faults += 1
            return rng.choice(kinds)

        self.store.weather = weather
        try:
            yield
        finally:
            self.store.weather = lambda: None

    def session(self) -> coordinator_pb2.SessionInfo:
        """The newest that the workers share; what a trainer reads in their stead has a key of its own."""
        with grpc.insecure_channel(self.coordinator.address) as channel:
            stub = coordinator_pb2_grpc.CoordinatorStub(channel)
            sessions = stub.ListSessions(coordinator_pb2.ListSessionsRequest(limit=20), timeout=10).sessions
        keyed = (info for info in sessions if info.session_key)
        return next(info for info in keyed if not info.session_key.endswith(":mop-up"))

    def uris(self) -> list[str]:
        """Of the numbered files, put into the store."""
        client = google.cloud.storage.Client(project="test", credentials=AnonymousCredentials())
        made = numbered.write(self._base / "data", FILES, RECORDS_A_FILE, RECORD_BYTES)
        with client:
            for path in made:
                client.bucket("bucket").blob(path.name).upload_from_filename(path)
        return [f"gs://bucket/{path.name}" for path in made]


class Troubles:
    """Those that both guarantees live through; each method is one epoch's, begun when the trainer has begun to read.

    `before`: those of which a part comes before the trainer begins; it may return what is to be undone at the end.
    """

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.rng = world, rng
        self.kinds: dict[str, Act] = {
            "one worker": self.one_worker,
            "both workers": self.both_workers,
            "node": self.node,
            "coordinator": self.coordinator,
            "dispatcher": self.dispatcher,
            "everybody": self.everybody,
            "between": self.between,
            "stopped": self.stopped,
            "store": self.store,
        }
        self.before: dict[str, Callable[[], Callable[[], None] | None]] = {}

    def one_worker(self, reader: Reader) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.some_time(reader)
            name = self.rng.choice(["worker 0", "worker 1"])
            self.world.kill(name)
            self.a_while()
            self.world.start(name)

    def both_workers(self, reader: Reader) -> None:
        self.some_time(reader)
        self.world.kill("worker 0", "worker 1")
        self.a_while()
        self.world.start(*self.rng.sample(["worker 0", "worker 1"], self.rng.randint(1, 2)))

    def node(self, reader: Reader) -> None:
        self.back_again(reader, "node")

    def coordinator(self, reader: Reader) -> None:
        self.back_again(reader, "coordinator")

    def dispatcher(self, reader: Reader) -> None:
        self.back_again(reader, "dispatcher")

    def back_again(self, reader: Reader, name: str) -> None:
        """With a worker, sometimes."""
        self.some_time(reader)
        self.world.kill(name, *self.rng.choice([[], ["worker 0"], ["worker 1"]]))
        self.a_while()
        self.world.start()

    def everybody(self, reader: Reader) -> None:
        self.some_time(reader)
        self.world.kill(*self.world.everyone)
        self.world.start()

    def between(self, reader: Reader) -> None:
        with suppress(tf.errors.OpError, TimeoutError):
            reader.result(LONGEST_EPOCH_S)
        self.world.kill(self.rng.choice(["worker 0", "worker 1", "node"]))
        self.world.start("node")

    def stopped(self, reader: Reader) -> None:
        self.some_time(reader)
        victims = self.rng.sample(sorted(name for name in self.world.everyone if self.world.alive(name)), 2)
        with self.world.stopped(*victims):
            time.sleep(self.rng.uniform(0.2, 3.0))

    def store(self, reader: Reader) -> None:
        """From the epoch's beginning, or from some time on."""
        if self.rng.random() < 0.5:
            self.some_time(reader)
        with self.world.bad_store(self.rng):
            time.sleep(self.rng.uniform(0.2, 2.0))
            self.world.kill(self.rng.choice(["worker 0", "worker 1"]))
        self.world.start()

    def some_time(self, reader: Reader) -> None:
        """Until a random record, and a random moment between that one and the next few; or the end in an error."""
        with suppress(tf.errors.OpError, TimeoutError):
            reader.reached(self.rng.randrange(TOTAL), LONGEST_EPOCH_S)
        time.sleep(self.rng.uniform(0, 0.05))

    def await_end(self, reader: Reader) -> None:
        """Of the workers' session: the trainer has not had everything yet."""
        reader.reached(1)
        wait_until(lambda: self.world.session().ended, "the end of the workers' session", LONGEST_EPOCH_S)

    def a_while(self) -> None:
        time.sleep(self.rng.choice([0.0, self.rng.uniform(0, 0.5)]))


def run(world: World, troubles: Troubles, dataset: Any, kills: int, twice_as_often: Sequence[str] = ()) -> None:
    """Epoch after epoch until so many processes were killed; each kind of trouble comes before any comes again."""
    tally, rng, order = world.tally, troubles.rng, list[str]()
    while tally.kills < kills and not tally.stuck:
        began = time.monotonic()
        kinds = [*troubles.kinds, *twice_as_often]
        order = order or rng.sample(kinds, len(kinds))
        kind = order.pop()
        if kind != "between" or rng.random() < 0.7:  # else with whoever is there
            world.start()
        undo = troubles.before[kind]() if kind in troubles.before else None
        reader = Reader(dataset, step_s=STEP_S * rng.choice([0.5, 1, 2]))
        troubles.kinds[kind](reader)
        outcome = _result(world, reader, kind)
        if undo is not None:
            undo()
        tally.epochs[kind] += 1
        tally.seconds[kind] += round(time.monotonic() - began)
        tally.longest_wait_s[kind] = max(tally.longest_wait_s.get(kind, 0.0), reader.longest_wait_s)
        if outcome is not None:
            lost, duplicates = numbered.lost_and_duplicates(outcome, TOTAL)
            tally.whole += 1
            tally.lost += lost
            tally.duplicates += duplicates
            if lost:
                world.start()  # the coordinator may be away
                shortfall = world.session().shortfall
                told = f"its session counts {shortfall} shards as perhaps not delivered"
                print(f"epoch {sum(tally.epochs.values())} ({kind}): {lost} lost; {told}", file=sys.stderr)
        if sum(tally.epochs.values()) % 10 == 0:
            print(f"{tally.kills} kills, {sum(tally.epochs.values())} epochs", file=sys.stderr, flush=True)
    world.start()


def _result(world: World, reader: Reader, kind: str) -> numbered.Numbers | None:
    """None after an error, which is counted. An epoch that is late is given all servers and as long again."""
    for limit_s in (LONGEST_EPOCH_S, GIVEN_UP_S):
        try:
            return reader.result(limit_s)
        except TimeoutError as error:
            world.tally.late += 1
            print(f"{kind}: {error}", file=sys.stderr, flush=True)
            world.start()
        except Exception as error:  # noqa: BLE001 - counted: a bar looks at it
            counter = world.tally.errors if isinstance(error, tf.errors.OpError) else world.tally.untyped
            counter[type(error).__name__] += 1
            print(f"{kind}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
            return None
    world.tally.stuck = True
    return None


def arguments(doc: str | None) -> argparse.Namespace:
    """--quick, --kills and --seed; the seed is printed."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_KILLS} kills instead of {FULL_KILLS}")
    parser.add_argument("--kills", type=int, help=f"another number than {FULL_KILLS}")
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    parsed, _ = parser.parse_known_args()
    parsed.kills = parsed.kills or (QUICK_KILLS if parsed.quick else FULL_KILLS)
    print(f"--seed={parsed.seed}", file=sys.stderr, flush=True)
    return parsed
