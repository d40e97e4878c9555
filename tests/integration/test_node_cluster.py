"""Two nodes and a coordinator: shards live where they belong, each is read from the store once, readers anywhere."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import node_calls, records
from tests.support.cluster import Server, wait_until
from tests.support.reader_client import ReaderClient, split_records
from tfquiver.scanning.cutting import CutPolicy

SMALL = CutPolicy(2_000, 8_000, 32_000)


@dataclass
class TwoNodes:
    coordinator: Server
    nodes: list[Server]
    pattern: Path
    made: list[bytes]

    def read(self, node: Server, digest_id: bytes, session: str = "") -> list[bytes]:
        client = ReaderClient(node.ready["socket"], digest_id, session_id=session, credit_bytes=200_000)
        found = list(client.records())
        client.close()
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TwoNodes]:
    rng = random.Random(3)
    made = [b"%06d " % n + rng.randbytes(rng.randrange(400)) for n in range(3000)]
    for part in range(4):
        (tmp_path / f"train-{part}").write_bytes(records.stream(made[part::4]))
    arguments = ["--port=0", f"--work_dir={tmp_path / 'work'}", "--node_timeout_ms=2000"]
    coordinator = Server("tfquiver.service.coordinator.main", arguments, tmp_path / "coordinator.log").start()
    nodes = []
    try:
        for name in ("a", "b"):
            flags = [f"--cache_dir={tmp_path / name}", "--quota=64MiB", f"--coordinator={coordinator.address}"]
            nodes.append(Server("tfquiver.service.node.main", flags, tmp_path / f"{name}.log").start())
        wait_until(lambda: len(node_calls.nodes(coordinator.address)) == 2, "both are members")
        yield TwoNodes(coordinator, nodes, tmp_path / "train-*", made)
    finally:
        codes = [server.stop() for server in [*nodes, coordinator]]
    assert set(codes) <= {0, -signal.SIGKILL}


def test_each_shard_is_kept_by_one_node_and_read_from_the_store_once(cluster: TwoNodes) -> None:
    first, second = cluster.nodes
    dataset = node_calls.ensure(first.ready["control"], cluster.pattern, SMALL)
    before = [node_calls.status(node.ready["control"]) for node in cluster.nodes]
    assert sum(status.entries for status in before) == dataset.shards
    assert min(status.entries for status in before) > dataset.shards // 5
    for node in (first, second):
        assert Counter(cluster.read(node, dataset.digest_id)) == Counter(cluster.made)
    after = [node_calls.status(node.ready["control"]) for node in cluster.nodes]
    assert [status.store_bytes for status in after] == [status.store_bytes for status in before]
    assert sum(status.hits for status in after) == dataset.shards
    assert sum(status.peer_hits for status in after) == dataset.shards


def test_readers_of_one_session_on_two_nodes_share_its_records(cluster: TwoNodes) -> None:
    dataset = node_calls.ensure(cluster.nodes[0].ready["control"], cluster.pattern, SMALL)
    session = node_calls.ticket(cluster.coordinator.address, dataset, "key")
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(lambda node: cluster.read(node, dataset.digest_id, session), cluster.nodes))
    assert Counter(parts[0] + parts[1]) == Counter(cluster.made)
    (info,) = node_calls.sessions(cluster.coordinator.address)
    assert (info.ended, info.shortfall, info.reread) == (True, 0, 0)


def test_what_a_node_that_is_replaced_had_leased_ahead_is_not_told_as_read_again(cluster: TwoNodes) -> None:
    first, _ = cluster.nodes
    dataset = node_calls.ensure(first.ready["control"], cluster.pattern, SMALL)
    client = ReaderClient(first.ready["socket"], dataset.digest_id, credit_bytes=50_000)
    seen, sent = Counter[bytes](), list[tuple[int, bytes]]()
    while client.owed_bytes > 0:  # all that may be sent without more credit
        sent.append(client.next_shard() or (0, b""))
    wait_until(
        lambda: node_calls.sessions(cluster.coordinator.address)[0].leased > len(sent),
        "it has leased more than it sent",
    )
    assert first.stop() == 0
    first.restart()
    client.path = first.ready["socket"]
    client.reconnect()
    assert not client.dropped
    while sent:
        for shard, data in sent:
            seen.update(split_records(data))
            client.emitted(shard, len(data))
        sent = [found] if (found := client.next_shard()) else []
    client.close()
    assert seen == Counter(cluster.made)
    (info,) = node_calls.sessions(cluster.coordinator.address)
    assert (info.ended, info.shortfall, info.reread) == (True, 0, 0)


def test_a_peer_that_dies_costs_store_reads_and_nothing_else(cluster: TwoNodes) -> None:
    first, second = cluster.nodes
    dataset = node_calls.ensure(first.ready["control"], cluster.pattern, SMALL)
    second.kill()
    assert Counter(cluster.read(first, dataset.digest_id)) == Counter(cluster.made)
    assert node_calls.status(first.ready["control"]).misses > 0


def test_what_a_lost_node_kept_and_another_has_in_memory_stands_on_a_disk_again(cluster: TwoNodes) -> None:
    first, second = cluster.nodes
    dataset = node_calls.ensure(first.ready["control"], cluster.pattern, SMALL)
    assert Counter(cluster.read(first, dataset.digest_id)) == Counter(cluster.made)
    before = node_calls.status(first.ready["control"])
    assert before.entries < dataset.shards
    second.kill()
    wait_until(lambda: len(node_calls.nodes(cluster.coordinator.address)) == 1, "the lost one is missed")
    assert Counter(cluster.read(first, dataset.digest_id)) == Counter(cluster.made)
    wait_until(lambda: node_calls.status(first.ready["control"]).entries == dataset.shards, "all is kept again")
    assert node_calls.status(first.ready["control"]).store_bytes == before.store_bytes
