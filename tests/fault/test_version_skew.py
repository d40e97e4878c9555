"""Servers of an earlier version and of this one in one cluster: a rolling upgrade, in either order, and the way back.

The earlier one is the commit of skew_base.txt, the oldest that is spoken to (docs/operations.md, Upgrades).
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import tfquiver
from tests.support import earlier, node_calls, numbered, rotating
from tests.support.cluster import Server, tensorflow_env, wait_until
from tests.support.reader_client import ReaderClient, ReaderGoneError, split_records
from tests.support.rotating import ENTRY_BYTES, Job
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, named_datasets_pb2, named_datasets_pb2_grpc, types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.version import VERSION

pytestmark = pytest.mark.long
BASE = Path(__file__).with_name("skew_base.txt").read_text().split()[0]
# Names are known there, and all of them are told with all orders.
ALL_NAMES_TOLD = "8ccd0c2db9dbb0ef1c6ea710a57aa132115e0307"
# Names are known there, and nodes do not say for which task of one they register what they have scanned.
TASKS_UNSAID = "b6bc985acc374c8e0b404b0cb61d275b27af94b8"
NOW, BEFORE = "now", "before"
SHARDS = 300
ONE_RECORD = CutPolicy(1, 1, 1)
READY = named_datasets_pb2.NamedDataset.STATE_READY
RECORD_BYTES = rotating.RECORD_BYTES + 16
LEASED_AHEAD = 2  # shards of 12 kB, by a reader with 20 kB of credit: half of that, and one
# Prints what a reader of the package that it imports is given of one epoch: how many records, how many differ.
READER = """
import sys
from tests.support.reader_client import ReaderClient
client = ReaderClient(sys.argv[1], bytes.fromhex(sys.argv[2]), session_key="older", job="older", credit_bytes=200_000)
read = list(client.records())
client.close()
print(len(read), len(set(read)))
"""


@pytest.fixture(scope="module")
def before_changes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return earlier.environment(earlier.unpacked(ALL_NAMES_TOLD, tmp_path_factory.mktemp("earlier") / "code"))


@pytest.fixture(scope="module")
def before_tasks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return earlier.environment(earlier.unpacked(TASKS_UNSAID, tmp_path_factory.mktemp("earlier") / "code"))


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes of the earlier version."""
    return earlier.environment(earlier.unpacked(BASE, tmp_path_factory.mktemp("earlier") / "code"))


class Mixed:
    """A coordinator and two nodes, each of one of the two versions. Use as a context manager."""

    def __init__(
        self, base: Path, before: dict[str, str], coordinator: str, nodes: Sequence[str], quota: str = "64MiB"
    ) -> None:
        self.base, self._before, self._quota = base, before, quota
        self.made = Counter(rotating.write(base / "data", SHARDS))
        self._stack = ExitStack()
        flags = ["--port=0", f"--work_dir={base / 'work'}", "--node_timeout_ms=2000"]
        self.coordinator = self._server("coordinator", coordinator, flags)
        self._versions = list(nodes)
        self.nodes: list[Server] = []

    def __enter__(self) -> Mixed:
        with self._stack:  # what has started ends where the rest does not start
            self.coordinator.start()
            for number, version in enumerate(self._versions):
                self.nodes.append(self._node(number, version).start())
            self.await_members()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def replace_node(self, number: int, version: str, *flags: str) -> None:
        """Stops that node, and starts one of `version` in its cache directory."""
        assert self.nodes[number].stop() == 0, self.nodes[number].log_tail()
        self.nodes[number] = self._node(number, version, *flags).start()
        self.await_members()

    def replace_coordinator(self, version: str) -> None:
        port = self.coordinator.port
        assert self.coordinator.stop() == 0, self.coordinator.log_tail()
        flags = [f"--port={port}", *(one for one in self.coordinator.arguments if not one.startswith("--port="))]
        self.coordinator = self._server("coordinator", version, flags).start()
        self.await_members()

    def await_members(self) -> None:
        ids = {str(node.ready["node_id"]) for node in self.nodes}
        address = self.coordinator.address
        wait_until(lambda: {node.node_id for node in node_calls.nodes(address)} == ids, "all are members")

    def scan(self, by: int) -> types_pb2.Dataset:
        return node_calls.ensure(self.nodes[by].ready["control"], self.base / "data" / "part-*", ONE_RECORD)

    def read(self, number: int, dataset: types_pb2.Dataset, session_id: str = "") -> Counter[bytes]:
        socket = self.nodes[number].ready["socket"]
        client = ReaderClient(socket, dataset.digest_id, session_id=session_id, credit_bytes=200_000)
        try:
            return Counter(client.records())
        finally:
            client.close()

    def all_is_read_from_caches(self, dataset: types_pb2.Dataset) -> bool:
        """Reads an epoch through each of the nodes."""
        before = self.store_bytes()
        for number in range(2):
            assert self.read(number, dataset) == self.made
        return self.store_bytes() == before

    def status(self, number: int) -> Any:
        return node_calls.status(self.nodes[number].ready["control"])

    def store_bytes(self) -> int:
        return sum(self.status(number).store_bytes for number in range(2))

    def call(self, method: str, request: Any) -> Any:
        with rpc.channel(self.coordinator.address) as channel:
            stub = coordinator_pb2_grpc.CoordinatorStub(channel)
            return getattr(stub, method)(request, timeout=20.0, wait_for_ready=True)

    def name(self, method: str, request: Any) -> Any:
        with rpc.channel(self.coordinator.address) as channel:
            stub = named_datasets_pb2_grpc.NamedDatasetsStub(channel)
            return getattr(stub, method)(request, timeout=20.0, wait_for_ready=True)

    def named(self, name: str) -> Any:
        return self.name("Get", named_datasets_pb2.GetNamedDatasetRequest(name=name))

    def _node(self, number: int, version: str, *flags: str) -> Server:
        cache_dir, coordinator = self.base / f"cache-{number}", f"--coordinator={self.coordinator.address}"
        common = [f"--cache_dir={cache_dir}", "--port=0", f"--quota={self._quota}", coordinator, *flags]
        return self._server("node", version, common, str(number))

    def _server(self, kind: str, version: str, flags: list[str], which: str = "") -> Server:
        env = self._before if version == BEFORE else {}
        server = Server(f"tfquiver.service.{kind}.main", flags, self.base / f"{kind}{which}-{version}.log", env)
        self._stack.callback(lambda: server.running and server.kill())
        return server


MIXES = {"older node": (NOW, (BEFORE, NOW)), "older coordinator": (BEFORE, (NOW, BEFORE))}


@pytest.fixture(params=list(MIXES))
def mix(request: pytest.FixtureRequest) -> tuple[str, Sequence[str]]:
    return MIXES[request.param]


def test_each_record_is_read_once_whoever_is_older(
    tmp_path: Path, before: dict[str, str], mix: tuple[str, Sequence[str]]
) -> None:
    with Mixed(tmp_path, before, *mix) as mixed:
        said = [mixed.status(number).version for number in range(2)]
        assert [bool(version) for version in said] == [version == NOW for version in mix[1]], (
            "they are what they are called"
        )
        dataset = mixed.scan(by=0)
        read = mixed.store_bytes()
        for number in range(2):
            assert mixed.read(number, dataset) == mixed.made
        session_id = node_calls.ticket(mixed.coordinator.address, dataset, "key")
        with ThreadPoolExecutor(2) as pool:
            parts = list(pool.map(lambda number: mixed.read(number, dataset, session_id), range(2)))
        assert parts[0] + parts[1] == mixed.made, "both took part in one epoch"
        assert mixed.store_bytes() == read, "the nodes give one another what they hold"
        shown = node_calls.sessions(mixed.coordinator.address)
        assert [(info.ended, info.shortfall, info.reread) for info in shown] == [(True, 0, 0)] * 3


def test_orders_are_carried_out_whoever_is_older(
    tmp_path: Path, before: dict[str, str], mix: tuple[str, Sequence[str]]
) -> None:
    """Chunks come and go on both nodes, which hold a fifth of the data set."""
    with Mixed(tmp_path, before, *mix, quota=str(SHARDS // 10 * ENTRY_BYTES)) as mixed:
        dataset = mixed.scan(by=0)
        rotating.set_cache(mixed.coordinator.address, dataset, "cooperative")
        jobs = [Job(mixed.nodes[n].ready["socket"], dataset, f"job {n}", 3, 0.001) for n in range(2)]
        for job in jobs:
            job.start()
        assert [job.finish() for job in jobs] == [[mixed.made] * 3] * 2
        for number in range(2):
            status = mixed.status(number)
            assert status.loads > 0 and status.evictions > 0, number
            assert status.node.used_bytes <= SHARDS // 10 * ENTRY_BYTES
        mixed.await_members()


def test_a_cluster_is_upgraded_one_server_at_a_time_and_goes_back(tmp_path: Path, before: dict[str, str]) -> None:
    """With one epoch under way all the time; what is cached and what is known stays."""
    with Mixed(tmp_path, before, BEFORE, (BEFORE, BEFORE)) as mixed:
        dataset = mixed.scan(by=0)
        client = ReaderClient(mixed.nodes[0].ready["socket"], dataset.digest_id, credit_bytes=20_000)
        seen = Counter[bytes]()
        steps = [
            lambda: mixed.replace_coordinator(NOW),
            lambda: mixed.replace_node(0, NOW),
            lambda: mixed.replace_node(1, NOW),
            lambda: mixed.replace_node(0, BEFORE),
            lambda: mixed.replace_coordinator(BEFORE),
            lambda: mixed.replace_node(1, BEFORE),
        ]
        for step in steps:
            for _ in range(10):
                received = next_shard(client, mixed)
                assert received is not None, "the epoch is long enough for all of this"
                seen.update(split_records(received[1]))
                client.emitted(received[0], len(received[1]))
            held = list[tuple[int, bytes]]()
            while client.owed_bytes > 0:  # of what a node has sent it cannot know that it has not arrived
                received = next_shard(client, mixed)
                assert received is not None
                held.append(received)
            step()
            for shard, data in held:
                seen.update(split_records(data))
                emitted(client, mixed, shard, len(data))
        while (received := next_shard(client, mixed)) is not None:
            seen.update(split_records(received[1]))
            client.emitted(received[0], len(received[1]))
        client.close()
        assert seen == mixed.made
        assert sum(mixed.status(number).entries for number in range(2)) == SHARDS, "what was cached is"
        # A node reads from the store what another keeps until it has found that one at its new port.
        wait_until(lambda: mixed.all_is_read_from_caches(dataset), "an epoch that the store has no part in")
        shown = node_calls.sessions(mixed.coordinator.address)
        assert {(info.ended, info.shortfall) for info in shown} == {(True, 0)}
        *later, first = (info.reread for info in shown)
        assert not any(later)
        assert first <= LEASED_AHEAD, "of what it gives back when it stops, the older node does not say what was sent"


def next_shard(client: ReaderClient, mixed: Mixed) -> tuple[int, bytes] | None:
    """Goes on, as the op does, where its node was replaced."""
    while True:
        try:
            return client.next_shard()
        except ReaderGoneError:
            go_on(client, mixed)


def emitted(client: ReaderClient, mixed: Mixed, shard: int, length_bytes: int) -> None:
    try:
        client.emitted(shard, length_bytes)
    except ReaderGoneError:
        go_on(client, mixed)
        client.emitted(shard, length_bytes)


def go_on(client: ReaderClient, mixed: Mixed) -> None:
    client.path = mixed.nodes[0].ready["socket"]
    client.reconnect()


def test_trainers_of_either_version_read_through_nodes_of_the_other(tmp_path: Path, before: dict[str, str]) -> None:
    with Mixed(tmp_path, before, NOW, (BEFORE, NOW)) as mixed:
        dataset = mixed.scan(by=1)
        command = [sys.executable, "-c", READER, mixed.nodes[1].ready["socket"], dataset.digest_id.hex()]
        env = {**tensorflow_env(), **before}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        assert done.stdout.split() == [str(SHARDS), str(SHARDS)], done.stderr
        numbered.write(tmp_path / "numbered", 2, 500, 1000)
        data = tfquiver.dataset(
            f"{tmp_path}/numbered/part-*", service=mixed.coordinator.address, cache_dir=tmp_path / "cache-0",
            batch_size=50, job="trial",
        )  # fmt: skip
        for _ in range(2):
            numbered.assert_each_once(numbered.read(data), 1000)


def test_where_data_is_kept_is_carried_out_by_nodes_that_know_of_it_and_by_others_when_they_do(
    tmp_path: Path, before: dict[str, str]
) -> None:
    with Mixed(tmp_path, before, NOW, (BEFORE, NOW)) as mixed:
        mixed.replace_node(1, NOW, "--labels=rack=r1")
        dataset = mixed.scan(by=0)
        rule = types_pb2.PlacementRule(selector="rack=r1")
        mixed.call("SetPlacement", pb.SetPlacementRequest(digest_id=dataset.digest_id, rule=rule))
        wait_until(lambda: mixed.status(1).entries == SHARDS, "the one that is chosen has all")
        for number in range(2):
            assert mixed.read(number, dataset) == mixed.made
        mixed.replace_node(0, NOW)
        request = pb.GetPlacementRequest(digest_id=dataset.digest_id)
        wait_until(lambda: mixed.call("GetPlacement", request).settled, "settled", 60)
        assert [mixed.status(number).entries for number in range(2)] == [0, SHARDS]
        assert mixed.read(0, dataset) == mixed.made


def test_an_earlier_coordinator_goes_on_with_a_log_that_says_which_dispatchers_are_there(
    tmp_path: Path, before: dict[str, str]
) -> None:
    """Of which it knows nothing; and this one goes on with what that one leaves."""

    def missed() -> list[str]:
        with rpc.channel(mixed.coordinator.address) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            return [one.address for one in stub.ListDispatchers(pb.ListDispatchersRequest(), timeout=10).lost]

    with Mixed(tmp_path, before, NOW, [NOW, NOW]) as mixed:
        dataset = mixed.scan(by=0)
        with rpc.channel(mixed.coordinator.address) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            stub.ReportDispatcher(
                pb.ReportDispatcherRequest(dispatcher=pb.DispatcherInfo(address="d:1", version=VERSION)), timeout=10
            )
        mixed.replace_coordinator(NOW)
        wait_until(lambda: missed() == ["d:1"], "it is missed", 30)
        mixed.replace_coordinator(BEFORE)
        assert mixed.read(0, dataset) == mixed.made
        mixed.replace_coordinator(NOW)
        assert mixed.read(1, dataset) == mixed.made


def test_each_node_has_the_digests_of_all_names_and_no_others_whoever_is_older(
    tmp_path: Path, before_changes: dict[str, str], mix: tuple[str, Sequence[str]]
) -> None:
    """Orders tell a node of this version what is other since it asked last; then the coordinator is another."""
    with Mixed(tmp_path, before_changes, *mix) as mixed:
        wanted, number = dict[str, str](), 0

        def all_have_them() -> bool:
            there = [{path.stem for path in (tmp_path / f"cache-{node}/digests").glob("*.tfqd")} for node in range(2)]
            return there == [set(wanted.values())] * 2

        for version in ("", BEFORE, NOW):
            if version:
                mixed.replace_coordinator(version)
            for _ in range(3):
                number += 1
                name, part = f"data-{number}", f"/part-{number}"
                (tmp_path / f"data{part}").write_bytes((tmp_path / "data/part-0").read_bytes()[: number * RECORD_BYTES])
                mixed.name("Create", named_datasets_pb2.DatasetSpec(name=name, sources=[f"{tmp_path}/data{part}"]))
                wait_until(lambda name=name: mixed.named(name).state == READY, name)
                wanted[name] = mixed.named(name).dataset.digest_id.hex()
                wait_until(all_have_them, f"{name} is everywhere", 30)
            gone = f"data-{number - 1}"
            mixed.name("Delete", named_datasets_pb2.NamedDatasetRequest(name=gone))
            del wanted[gone]
            wait_until(all_have_them, f"{gone} is gone everywhere", 30)


def test_what_a_node_has_scanned_without_saying_for_which_name_is_that_names_and_goes_with_it(
    tmp_path: Path, before_tasks: dict[str, str]
) -> None:
    def datasets() -> int:
        return len(mixed.call("ListDatasets", pb.ListDatasetsRequest()).datasets)

    with Mixed(tmp_path, before_tasks, NOW, (BEFORE, BEFORE)) as mixed:
        for number in range(3):
            part = tmp_path / "data" / f"one-{number}"
            part.write_bytes((tmp_path / "data/part-0").read_bytes()[: (number + 1) * RECORD_BYTES])
            mixed.name("Create", named_datasets_pb2.DatasetSpec(name="train", sources=[str(part)]))
            wait_until(lambda: mixed.named("train").state == READY, "it is scanned")
            assert (mixed.named("train").version, datasets()) == (1, 1)
            part.write_bytes((tmp_path / "data/part-1").read_bytes()[: (number + 1) * RECORD_BYTES])
            mixed.name("Refresh", named_datasets_pb2.NamedDatasetRequest(name="train"))
            wait_until(lambda: mixed.named("train").version == 2, "it is scanned anew")
            if number:  # one of this version goes on with what the older one has scanned
                mixed.replace_node(number - 1, NOW)
            mixed.name("Delete", named_datasets_pb2.NamedDatasetRequest(name="train"))
            wait_until(lambda: not datasets(), "nothing of it is registered")
            wait_until(lambda: not any(mixed.status(one).entries for one in range(2)), "nothing of it is kept", 60)
