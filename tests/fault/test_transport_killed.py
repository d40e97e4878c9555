"""kill -9 of workers and trainers in mid-epoch while elements travel by the transport `tfquiver` (decision 0050)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensorflow as tf

import tfquiver
from tests.support import fixed_ports, numbered, warm
from tests.support.cluster import Cluster, Server, wait_until
from tfquiver import CutPolicy
from tfquiver.grpc_plumbing import addresses
from tfquiver.ops.compiling_and_loading import tensorflows, transport

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not tensorflows.transport_name(tf.__version__), reason="this TensorFlow has no transport library"
    ),
]

FILES, RECORDS_A_FILE, RECORD_BYTES = 4, 1500, 1000
TOTAL = FILES * RECORDS_A_FILE
paths = numbered.fixture(FILES, RECORDS_A_FILE, RECORD_BYTES)
BATCH, HOLD_BACK = 20, 16
READAHEAD, POOL = 100_000, 100_000
# What one worker may have been given and not acknowledged: read-ahead, pool, held back, and the shards these lie in.
UNACKED_RECORDS = (READAHEAD + POOL) // RECORD_BYTES + BATCH * (HOLD_BACK + 2) + 400


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Its workers are started on any port."""
    flags = {"dispatcher": ["--reap_interval_ms=200"]}
    with Cluster(tmp_path / "cluster", workers=2, flags=flags) as running:
        yield running


def distributed(service: str, dispatcher: str, paths: list[Path] | list[str]) -> tf.data.Dataset:
    read = tfquiver.dataset(
        [str(path) for path in paths],
        service=service,
        first_use=tfquiver.FirstUse(cut=CutPolicy(10_000, 20_000, 40_000)),
        batch_size=BATCH,
        reading=tfquiver.Reading(readahead_bytes=READAHEAD, hold_back=HOLD_BACK),
        order=tfquiver.Shuffled(shuffle_bytes=POOL),
    )
    return read.apply(tfquiver.distribute(dispatcher, compression=None, data_transfer_protocol="tfquiver"))


def of(cluster: Cluster, paths: list[Path]) -> tf.data.Dataset:
    assert cluster.dispatcher is not None
    return distributed(cluster.coordinator.address, cluster.dispatcher.address, paths)


def counts() -> transport.Counts:
    loaded = transport.load()
    assert loaded is not None
    return loaded.counts()


def assert_nothing_lost(seen: numbered.Numbers, most_duplicates: int) -> None:
    lost, duplicates = numbered.lost_and_duplicates(seen, TOTAL)
    print(f"{len(seen)} records seen of {TOTAL}, {lost} lost, {duplicates} duplicates")
    assert lost == 0
    assert duplicates <= most_duplicates


def assert_an_epoch_comes_by_the_transport(shared: tf.data.Dataset, lost_workers: int = 0) -> None:
    """The dispatcher still counts on a lost worker: there is a task for it, too, that nobody is found for."""
    before = counts()
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)
    after = counts()
    assert after.elements_received - before.elements_received >= TOTAL / BATCH
    assert after.fallbacks - before.fallbacks == lost_workers


def shared_memory(pid: int) -> int:
    """Pieces of elements' memory that a process holds open, or looks into."""
    maps = Path(f"/proc/{pid}/maps").read_text().count("memfd:tfquiver-element")
    return maps + sum("memfd:tfquiver-element" in target for target in open_files(pid))


def connections(pid: int) -> int:
    """Of a worker, with trainers on this machine."""
    ours = {line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines() if "@tfquiver-elements" in line}
    return sum(target.removeprefix("socket:[").removesuffix("]") in ours for target in open_files(pid)) - 1  # listening


def open_files(pid: int) -> list[str]:
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return found


def listening(pid: int) -> set[int]:
    """The TCP ports of a process."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    mine = {target.removeprefix("socket:[").removesuffix("]") for target in open_files(pid)}
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in mine}


def given_to_who_connects(ports: set[int]) -> set[int]:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    return {port for port in ports if first <= port <= last}


def test_a_worker_that_does_not_return(cluster: Cluster, paths: list[Path]) -> None:
    shared = of(cluster, paths)
    reader = numbered.EpochReader(shared, step_s=0.004)
    reader.reached(TOTAL // 4)
    assert shared_memory(os.getpid()) > 0
    cluster.workers[0].kill()
    assert_nothing_lost(reader.result(), UNACKED_RECORDS)
    del reader, shared
    wait_until(lambda: shared_memory(os.getpid()) == 0, "the trainer looks into nobody's memory any more")
    assert_an_epoch_comes_by_the_transport(of(cluster, paths), lost_workers=1)


def test_a_worker_that_returns_to_its_port_but_not_its_transports(cluster: Cluster, paths: list[Path]) -> None:
    """What it is asked for then comes by gRPC, at the address that it knew before TensorFlow did: in later epochs, too,
    because TensorFlow's dispatcher tells trainers what a worker said of itself first."""
    shared = of(cluster, paths)
    reader = numbered.EpochReader(shared, step_s=0.01)
    reader.reached(TOTAL // 4)
    before = counts().fallbacks
    cluster.workers[0].kill()
    cluster.workers[0].arguments.append(transport_port())
    cluster.workers[0].restart()
    assert_nothing_lost(reader.result(), UNACKED_RECORDS)
    assert counts().fallbacks == before + 1
    numbered.assert_each_once(numbered.EpochReader(shared).result(), TOTAL)
    assert counts().fallbacks == before + 2


@pytest.mark.parametrize("its_transports", ["any", "given"])
def test_a_worker_that_returns_to_both_its_ports(cluster: Cluster, paths: list[Path], its_transports: str) -> None:
    """By gRPC at most until the end of the epoch: who asks while it is away takes it for gone."""
    worker = cluster.workers[0] if its_transports == "any" else with_port(cluster.add_worker(), transport_port())
    shared = of(cluster, paths)
    reader = numbered.EpochReader(shared, step_s=0.01)
    reader.reached(TOTAL // 4)
    before = counts().fallbacks
    worker.kill()
    worker.restart()
    assert_nothing_lost(reader.result(), UNACKED_RECORDS)
    assert not given_to_who_connects(listening(worker.process.pid) - {worker.port}), "it may be gone another time"
    assert counts().fallbacks <= before + 1
    assert_an_epoch_comes_by_the_transport(shared)


def with_port(worker: Server, port: str) -> Server:
    worker.arguments.append(port)
    return worker.start()


def transport_port() -> str:
    return f"--transport_port={fixed_ports.free_port(addresses.everywhere())}"


def test_a_worker_whose_transports_port_is_another_workers_now(cluster: Cluster, paths: list[Path]) -> None:
    port = transport_port()
    leaving = with_port(cluster.add_worker(), port)
    reader = numbered.EpochReader(of(cluster, paths), step_s=0.004)
    reader.reached(TOTAL // 4)
    before = counts().fallbacks
    leaving.kill()
    coming = with_port(cluster.add_worker(), port)
    assert coming.port != leaving.port
    assert_nothing_lost(reader.result(), UNACKED_RECORDS)
    assert counts().fallbacks == before + 1, "it was refused there"
    assert_an_epoch_comes_by_the_transport(of(cluster, paths), lost_workers=1)


def test_no_epoch_ends_short_when_every_worker_is_lost(cluster: Cluster, paths: list[Path]) -> None:
    reader = numbered.EpochReader(of(cluster, paths), step_s=0.004)
    reader.reached(TOTAL // 4)
    cluster.kill_workers()
    with pytest.raises(TimeoutError):  # longer than --worker_timeout_ms: nobody may call the tasks finished
        reader.result(deadline_s=6)
    cluster.add_worker().start()
    assert_nothing_lost(reader.result(), 2 * UNACKED_RECORDS)


_TRAINER = """
import sys, time
from tests.fault.test_transport_killed import counts, distributed

for step, batch in enumerate(distributed(sys.argv[1], sys.argv[2], sys.argv[3:])):
    if step == 20:
        assert counts().elements_received > step
        print("reading", flush=True)
    time.sleep(0.005)
"""


def test_trainers_that_are_killed_leave_nothing_in_the_workers(cluster: Cluster, paths: list[Path]) -> None:
    assert cluster.dispatcher is not None
    assert_an_epoch_comes_by_the_transport(of(cluster, paths))
    pids = [worker.process.pid for worker in cluster.workers]
    command = [sys.executable, "-c", _TRAINER, cluster.coordinator.address, cluster.dispatcher.address]
    for _ in range(2):
        killed = [*command, *map(str, paths)]
        with warm.Popen(killed, warm_kind="tensorflow", stdout=subprocess.PIPE) as trainer:
            try:
                assert trainer.stdout is not None
                assert trainer.stdout.readline() == b"reading\n"
                assert any(map(shared_memory, pids)) and any(map(connections, pids))
            finally:
                trainer.kill()
        wait_until(lambda: not any(map(shared_memory, pids)), "memory that nobody looks into is given back")
    wait_until(lambda: not any(map(connections, pids)), "the connections of killed trainers are closed")
    assert_an_epoch_comes_by_the_transport(of(cluster, paths))
