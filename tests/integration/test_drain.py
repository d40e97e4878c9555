"""SIGTERM: leases go back, the node leaves, what is on its way arrives; and nothing that hangs is waited for."""

from __future__ import annotations

import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import node_calls, records
from tests.support.cluster import Server, wait_until
from tests.support.reader_client import ReaderClient
from tests.support.started_nodes import NODE
from tests.support.store_node import build
from tfquiver.digests.digest import Digest
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.connections_between_nodes import data_frames as frames

POLICY = CutPolicy(256 << 10, 1 << 20, 4 << 20)
LONG_MS = 3_600_000  # so long a node may be silent: nothing here is due to that


@dataclass
class TwoNodes:
    coordinator: Server
    nodes: list[Server]
    digest: Digest
    made: list[bytes]

    def members(self) -> int:
        return len(node_calls.nodes(self.coordinator.address))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TwoNodes]:
    rng = random.Random(5)
    made = [b"%06d " % n + rng.randbytes(40_000) for n in range(800)]
    for part in range(2):
        (tmp_path / f"train-{part}").write_bytes(records.stream(made[part::2]))
    arguments = ["--port=0", f"--work_dir={tmp_path / 'work'}", f"--node_timeout_ms={LONG_MS}"]
    coordinator = Server("tfquiver.service.coordinator.main", arguments, tmp_path / "coordinator.log").start()
    nodes: list[Server] = []
    try:
        for name in ("a", "b"):
            flags = [f"--cache_dir={tmp_path / name}", "--quota=256MiB", f"--coordinator={coordinator.address}"]
            nodes.append(Server(NODE, flags, tmp_path / f"{name}.log").start())
        wait_until(lambda: len(node_calls.nodes(coordinator.address)) == 2, "both are members")
        node_calls.ensure(nodes[0].ready["control"], tmp_path / "train-*", POLICY)
        yield TwoNodes(coordinator, nodes, build(tmp_path / "train-*", POLICY), made)
    finally:
        codes = [server.stop() for server in [*nodes, coordinator]]
    assert set(codes) <= {0, -signal.SIGKILL}


def test_leases_go_back_at_once(cluster: TwoNodes) -> None:
    """The epoch is read to its end through the other node, although a silent one would be waited for an hour."""
    leaving, staying = cluster.nodes
    first = ReaderClient(leaving.ready["socket"], cluster.digest.digest_id, session_key="epoch")
    got = [first.next_shard(), first.next_shard()]
    assert all(got)
    second = ReaderClient(staying.ready["socket"], cluster.digest.digest_id, session_id=first.session_id)
    assert leaving.stop() == 0
    wait_until(lambda: cluster.members() == 1, "it has left", 5.0)
    assert Counter(second.records()) == Counter(cluster.made), "what was leased and not acknowledged, too"
    second.close()
    first.connection.close()


def test_a_node_that_comes_back_is_where_its_readers_left_it(cluster: TwoNodes) -> None:
    """A rolling update: the reader of a node that is replaced goes on, and reads each record once."""
    node = cluster.nodes[0]
    client = ReaderClient(node.ready["socket"], cluster.digest.digest_id, session_key="update")
    index, data = client.next_shard() or (-1, b"")
    client.emitted(index, len(data))
    assert node.stop() == 0
    node.start()
    client.reconnect()
    found = Counter({index: 1})
    for index, _ in client.shards():
        found[index] += 1
    client.close()
    assert found == Counter(range(cluster.digest.num_shards))


def _asks_for_all(node: Server, digest: Digest) -> socket.socket:
    """A peer that has asked for every shard, and reads no more of them for now than its kernel does."""
    sock = socket.socket()
    sock.settimeout(20.0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    sock.connect(("localhost", node.ready["data_port"]))
    sock.sendall(frames.encode(frames.Hello("", "peer")))
    assert isinstance(_hear(sock), frames.Welcome)
    wants = tuple((shard, digest.hashes[shard].tobytes()) for shard in range(digest.num_shards))
    sock.sendall(frames.encode(frames.Get(digest.digest_id, 1, wants)))
    return sock


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        if not (part := sock.recv(min(size, 1 << 20))):
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _hear(sock: socket.socket) -> frames.Frame:
    while True:
        cls, length = frames.decode_header(_exactly(sock, frames.HEADER_BYTES))
        frame = frames.decode_payload(cls, _exactly(sock, length))
        if not isinstance(frame, frames.Working):
            return frame


def test_what_a_peer_is_being_sent_arrives(cluster: TwoNodes) -> None:
    leaving, digest = cluster.nodes[0], cluster.digest
    with _asks_for_all(leaving, digest) as sock:
        first = _hear(sock)
        assert isinstance(first, frames.Item) and first.body
        leaving.process.send_signal(signal.SIGTERM)
        arrived = {first.shard: len(_exactly(sock, first.body.stored_length))}
        while len(arrived) < digest.num_shards:
            item = _hear(sock)
            assert isinstance(item, frames.Item) and item.body
            arrived[item.shard] = len(_exactly(sock, item.body.stored_length))
    assert set(arrived) == set(range(digest.num_shards))
    assert leaving.process.wait(20) == 0


def test_a_peer_that_takes_nothing_is_not_waited_for(cluster: TwoNodes) -> None:
    leaving = cluster.nodes[0]
    with _asks_for_all(leaving, cluster.digest):
        began_s = time.monotonic()
        assert leaving.stop(deadline_s=5.0) == 0
        assert time.monotonic() - began_s < 5.0
    assert "unfinished" in leaving.log_tail()
    wait_until(lambda: cluster.members() == 1, "it has left", 5.0)
