"""Nodes and coordinators that are killed while readers read: nothing is lost, nothing is read twice."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import node_calls, records
from tests.support.cluster import Server, wait_until
from tests.support.reader_client import ReaderClient, ReaderGoneError, split_records
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy

SMALL = CutPolicy(1_000, 4_000, 16_000)
RECORDS = 2000


@pytest.fixture
def made(tmp_path: Path) -> list[bytes]:
    rng = random.Random(2)
    made = [b"%06d " % n + rng.randbytes(rng.randrange(300)) for n in range(RECORDS)]
    for part in range(2):
        (tmp_path / f"train-{part}").write_bytes(records.stream(made[part::2]))
    return made


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    started: list[Server] = []
    yield started
    for server in reversed(started):
        assert server.stop() in (0, -signal.SIGKILL), server.log_tail()


def embedded(tmp_path: Path, servers: list[Server]) -> Server:
    node = Server(
        "tfquiver.service.node.main", [f"--cache_dir={tmp_path / 'cache'}", "--quota=64MiB"], tmp_path / "n.log"
    )
    servers.append(node)
    return node.start()


class SteadyReader(threading.Thread):
    """Reads on whatever happens to its node; `pause_after` shards it waits for `go_on`."""

    def __init__(self, client: ReaderClient, pause_after: int) -> None:
        super().__init__()
        self.client, self.pause_after = client, pause_after
        self.found: list[bytes] = []
        self.paused, self.go_on = threading.Event(), threading.Event()
        self.reconnects = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.client.ended:
                self._read()
            self.client.close()
        except BaseException as error:  # noqa: BLE001 - raised again in `finish`
            self.failure = error
            self.paused.set()

    def _read(self) -> None:
        shards = 0
        try:
            for _, data in self.client.shards():
                self.found += split_records(data)
                shards += 1
                if shards == self.pause_after and not self.paused.is_set():
                    self.paused.set()
                    assert self.go_on.wait(60)
        except ReaderGoneError:
            self.reconnects += 1
            self.client.reconnect()

    def finish(self) -> list[bytes]:
        self.join(60)
        assert not self.is_alive()
        if self.failure:
            raise self.failure
        return self.found


def paused_readers(node: Server, dataset: types_pb2.Dataset, session: str, hold_back: int) -> list[SteadyReader]:
    """Two of that session, each in mid-epoch."""
    options: dict[str, Any] = {"session_id": session, "hold_back": hold_back, "credit_bytes": 20_000}
    readers = [SteadyReader(ReaderClient(node.ready["socket"], dataset.digest_id, **options), 20) for _ in range(2)]
    for reader in readers:
        reader.start()
        assert reader.paused.wait(60)
    return readers


def test_readers_of_a_killed_node_go_on_with_what_they_hold(
    tmp_path: Path, made: list[bytes], servers: list[Server]
) -> None:
    node = embedded(tmp_path, servers)
    dataset = node_calls.ensure(node.ready["control"], tmp_path / "train-*", SMALL)
    session = node_calls.ticket(node.ready["coordinator"], dataset, "key")
    readers = paused_readers(node, dataset, session, hold_back=3)
    node.kill()
    for reader in readers:
        reader.go_on.set()
    node.start()
    found = [record for reader in readers for record in reader.finish()]
    assert [reader.reconnects for reader in readers] == [1, 1]
    assert Counter(found) == Counter(made)
    (info,) = node_calls.sessions(node.ready["coordinator"])
    assert (info.ended, info.shortfall) == (True, 0)


def test_readers_wait_for_a_killed_coordinator(tmp_path: Path, made: list[bytes], servers: list[Server]) -> None:
    arguments = ["--port=0", f"--work_dir={tmp_path / 'coordinator'}", "--node_timeout_ms=3000"]
    coordinator = Server("tfquiver.service.coordinator.main", arguments, tmp_path / "c.log")
    servers.append(coordinator)
    coordinator.start()
    arguments = [f"--cache_dir={tmp_path / 'cache'}", "--quota=64MiB", f"--coordinator={coordinator.address}"]
    node = Server("tfquiver.service.node.main", arguments, tmp_path / "n.log")
    servers.append(node)
    node.start()
    dataset = node_calls.ensure(node.ready["control"], tmp_path / "train-*", SMALL)
    session = node_calls.ticket(coordinator.address, dataset, "key")
    readers = paused_readers(node, dataset, session, hold_back=2)
    coordinator.kill()
    for reader in readers:
        reader.go_on.set()
    wait_until(lambda: "UNAVAILABLE" in node.log_tail(200), "the node notices")
    coordinator.restart()
    found = [record for reader in readers for record in reader.finish()]
    assert Counter(found) == Counter(made)
    assert [reader.reconnects for reader in readers] == [0, 0]
    assert any("has not answered" in told.message for reader in readers for told in reader.client.told)
    (info,) = node_calls.sessions(coordinator.address)
    assert (info.ended, info.shortfall, info.reread) == (True, 0, 0)


def test_a_coordinator_that_stays_away_ends_the_readers(
    tmp_path: Path, made: list[bytes], servers: list[Server]
) -> None:
    coordinator = Server(
        "tfquiver.service.coordinator.main", ["--port=0", f"--work_dir={tmp_path / 'coordinator'}"], tmp_path / "c.log"
    )
    servers.append(coordinator)
    coordinator.start()
    flags = ["--coordinator_lost_s=3", f"--coordinator={coordinator.address}"]
    arguments = [f"--cache_dir={tmp_path / 'cache'}", "--quota=64MiB", *flags]
    node = Server("tfquiver.service.node.main", arguments, tmp_path / "n.log")
    servers.append(node)
    node.start()
    dataset = node_calls.ensure(node.ready["control"], tmp_path / "train-*", SMALL)
    client = ReaderClient(node.ready["socket"], dataset.digest_id, credit_bytes=20_000)
    coordinator.kill()
    with pytest.raises(Exception, match="coordinator"):
        for _ in client.shards():
            pass
    client.connection.close()
    assert node.running
