"""Real nodes that keep a part of a data set, by chunks that come and go: what leaves the store, epoch by epoch."""

from __future__ import annotations

import itertools
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import node_calls, rotating
from tests.support.cluster import Server, wait_until
from tests.support.rotating import ENTRY_BYTES, Job
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy

pytestmark = pytest.mark.long
ONE_RECORD = CutPolicy(1, 1, 1)
SHARDS = 400
CACHE_SHARE = 0.2
QUOTA_BYTES = int(SHARDS * CACHE_SHARE) * ENTRY_BYTES
Start = Callable[..., Server]


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Server]:
    arguments = ["--port=0", f"--work_dir={tmp_path / 'coordinator'}", "--node_timeout_ms=5000"]
    server = Server("tfquiver.service.coordinator.main", arguments, tmp_path / "coordinator.log")
    yield server.start()
    assert server.stop() in (0, -signal.SIGKILL), server.log_tail()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    servers: list[Server] = []

    def make(*flags: str) -> Server:
        arguments = [
            f"--cache_dir={tmp_path / 'cache'}", f"--quota={QUOTA_BYTES}", "--hot=0", "--lease_ahead=32KiB", *flags,
        ]  # fmt: skip
        servers.append(Server("tfquiver.service.node.main", arguments, tmp_path / "node.log"))
        return servers[-1].start()

    yield make
    for server in servers:
        assert server.stop() in (0, -signal.SIGKILL), server.log_tail()


def data(tmp_path: Path, node: Server) -> tuple[types_pb2.Dataset, Counter[bytes]]:
    made = Counter(rotating.write(tmp_path / "data", SHARDS))
    dataset = node_calls.ensure(node.ready["control"], tmp_path / "data" / "part-*", ONE_RECORD)
    assert dataset.shards == SHARDS
    return dataset, made


@pytest.mark.parametrize(
    ("rotation", "most_bytes"),
    # The paper's two large chunks are not both of use to the next epoch.
    [("relevance", 1.05 * (1 - CACHE_SHARE)), ("cyclic", 1.0 - CACHE_SHARE / 2 + 0.05)],
)
def test_what_the_cache_does_not_hold_leaves_the_store_once_an_epoch(
    tmp_path: Path, start: Start, rotation: str, most_bytes: float
) -> None:
    node = start()
    dataset, made = data(tmp_path, node)
    rotating.set_cache(node.ready["coordinator"], dataset, "cooperative", rotation=rotation)
    control, epochs = node.ready["control"], 3
    store_bytes = [node_calls.status(control).store_bytes]
    job = Job(
        node.ready["socket"], dataset, "job", epochs, 0.002,
        lambda _: store_bytes.append(node_calls.status(control).store_bytes),
    )  # fmt: skip
    job.start()
    assert job.finish() == [made] * epochs
    shares = [(b - a) / dataset.size_bytes for a, b in itertools.pairwise(store_bytes)]
    status = node_calls.status(control)
    assert status.node.used_bytes <= QUOTA_BYTES
    assert sum(shares[1:]) / (epochs - 1) <= most_bytes, shares
    assert status.loads > 0
    assert status.evictions > SHARDS


def test_jobs_in_step_share_what_leaves_the_store_while_coordinator_and_node_are_killed(
    tmp_path: Path, start: Start, coordinator: Server
) -> None:
    node = start(f"--coordinator={coordinator.address}")
    dataset, made = data(tmp_path, node)
    rotating.set_cache(coordinator.address, dataset, "cooperative")
    control, epochs = node.ready["control"], 3
    together = threading.Barrier(3, timeout=60)
    jobs = [Job(node.ready["socket"], dataset, f"job {n}", epochs, 0.002, lambda _: together.wait()) for n in range(3)]
    for job in jobs:
        job.start()
    wait_until(lambda: all(job.shards >= SHARDS + SHARDS // 2 for job in jobs), "the second epoch is half read", 90)
    coordinator.kill()
    coordinator.restart()
    wait_until(lambda: all(job.shards >= 2 * SHARDS + SHARDS // 2 for job in jobs), "the third epoch is half read", 90)
    before = node_calls.status(control)
    node.kill()
    node.start()
    found = [job.finish() for job in jobs]
    for read in found:
        assert [set(epoch) for epoch in read] == [set(made)] * epochs
        assert all(count == 1 for epoch in read for count in epoch.values())
    status = node_calls.status(node.ready["control"])
    store_bytes = before.store_bytes - dataset.size_bytes + status.store_bytes
    # The first epoch fills the cache, what the coordinator's end interrupts is leased again, and readers are not in
    # step to the shard.
    assert store_bytes <= 1.15 * (1 + 2 * (1 - CACHE_SHARE)) * dataset.size_bytes
    assert status.node.used_bytes <= QUOTA_BYTES
    assert status.hits > 0


def test_two_nodes_share_a_data_set_and_one_goes_on_alone(tmp_path: Path, coordinator: Server) -> None:
    """Hashing fills them unevenly, and there is no room to spare; then half of the room goes, and all of it is back."""
    flags = ["--hot=0", "--lease_ahead=64KiB", f"--quota={QUOTA_BYTES}", f"--coordinator={coordinator.address}"]
    first, second = (
        Server("tfquiver.service.node.main", [f"--cache_dir={tmp_path / name}", *flags], tmp_path / f"{name}.log")
        for name in "ab"
    )
    try:
        first.start()
        second.start()
        wait_until(lambda: len(node_calls.nodes(coordinator.address)) == 2, "both are members")
        dataset, made = data(tmp_path, first)
        rotating.set_cache(coordinator.address, dataset, "cooperative", chunks=40)
        epochs = 4
        job = Job(first.ready["socket"], dataset, "job", epochs, 0.002)
        job.start()
        wait_until(lambda: job.shards > 2 * SHARDS, "two epochs are read", 60)
        second.kill()
        wait_until(lambda: job.shards > 3 * SHARDS, "a third is read without it", 60)
        second.start()
        assert job.finish() == [made] * epochs
        for node in (first, second):
            assert node_calls.status(node.ready["control"]).node.used_bytes <= QUOTA_BYTES
    finally:
        codes = [server.stop() for server in (first, second)]
    assert set(codes) <= {0, -signal.SIGKILL}
