"""`tfquiver doctor` on real clusters: what is well is ok, and each thing that is broken on purpose is found."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.support.cluster import Cluster, Server, wait_until
from tests.support.records import stream
from tfquiver.cli import calls, main
from tfquiver.cli.doctor import cluster as doctor_cluster
from tfquiver.cli.doctor import command, finding
from tfquiver.cluster_address import running_nodes
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, node_pb2, node_pb2_grpc, types_pb2

_MANY = 8
# Without its command, which gives up where one of the same process id was killed before and left its semaphore.
_FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", workers=0) as running:
        yield running


def second_node(cluster: Cluster, tmp_path: Path, *flags: str) -> Server:
    where = f"--coordinator={cluster.coordinator.address}"
    return cluster.add("node", f"--cache_dir={tmp_path / 'second'}", "--quota=64MiB", where, *flags).start()


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and findings by what they are of."""
    code = main.main(["doctor", "--no_op", "--json", *arguments])
    return code, {one["what"]: one for one in json.loads(capsys.readouterr().out)}


@contextmanager
def serving(servicer: node_pb2_grpc.NodeServicer | None) -> Iterator[str]:
    """None: an older node, which knows no call."""
    with ThreadPoolExecutor(_MANY) as pool:
        server = grpc.server(pool)
        if servicer is not None:
            node_pb2_grpc.add_NodeServicer_to_server(servicer, server)
        address = f"localhost:{server.add_insecure_port('localhost:0')}"
        server.start()
        try:
            yield address
        finally:
            server.stop(None).wait()


def test_all_is_well(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second_node(cluster, tmp_path)
    (tmp_path / "train-0").write_bytes(stream([b"record"] * 1000))
    asked = str(cluster.cache_dir), f"--store={tmp_path}/train-*"
    wait_until(lambda: "2 ways" in told(capsys, *asked)[1]["nodes reach one another"]["why"], "both know of both")
    code, found = told(capsys, *asked)
    assert code == 0, found
    address = cluster.coordinator.address
    for what in (
        f"coordinator {address}", f"clock of coordinator {address}", f"version of coordinator {address}", "nodes",
        "nodes answer", "nodes reach one another", "advertised addresses", f"store {tmp_path}/train-*", "reads",
        f"cache directory {cluster.cache_dir}",
    ):  # fmt: skip
        assert found[what]["verdict"] == "ok", found[what]
    assert "quota 1.1 GB" in found["room"]["why"]
    assert not [path for path in cluster.cache_dir.iterdir() if "doctor" in path.name]


def test_versions_of_dispatchers_and_workers_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(tmp_path / "cluster", workers=1) as cluster:
        address = cluster.coordinator.address

        def verdicts() -> list[str | None]:
            found = told(capsys, address)[1]
            return [found.get(f"versions of {kind}", {}).get("verdict") for kind in ("dispatchers", "workers")]

        wait_until(lambda: verdicts() == ["ok", "ok"], "both have said", 60)
        with rpc.channel(address) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            older = coordinator_pb2.DispatcherInfo(address="other:1", version="0.0.1")
            stub.ReportDispatcher(coordinator_pb2.ReportDispatcherRequest(dispatcher=older), timeout=20)
        assert verdicts() == ["warn", "ok"]


@pytest.mark.skipif(not _FAKETIME, reason="needs faketime: apt-get install faketime")
@pytest.mark.parametrize("shift", ["+1h", "-30s"])
def test_a_host_whose_clock_is_wrong_is_named(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], shift: str
) -> None:
    assert cluster.node is not None
    flags = [f"--cache_dir={tmp_path / 'wrong'}", "--quota=64MiB", f"--coordinator={cluster.coordinator.address}"]
    wrong = Server(
        "tfquiver.service.node.main", ["--port=0", *flags], tmp_path / "wrong.log",
        {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "LD_PRELOAD": str(_FAKETIME[0]), "FAKETIME": shift},
    )  # fmt: skip
    try:
        wrong.start()
        found = told(capsys, cluster.coordinator.address)[1]
        short = str(wrong.ready["node_id"]).removeprefix("node-")[:8]
        clocks = {what: one for what, one in found.items() if what.startswith("clock of node")}
        assert list(clocks) == [f"clock of node {short}"], "and no other"
        [clock] = clocks.values()
        assert clock["verdict"] == "warn"
        off_s = float(clock["why"].split()[0])
        assert off_s == pytest.approx({"+1h": 3600, "-30s": 30}[shift], abs=20)
        assert "synchronise clocks" in clock["do"]
        assert found[f"clock of coordinator {cluster.coordinator.address}"]["verdict"] == "ok"
    finally:
        wrong.kill()


def test_a_node_that_is_not_where_it_says_is_found(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second_node(cluster, tmp_path, "--advertise_host=127.0.0.2", "--bind_host=127.0.0.1")
    address, reach = cluster.coordinator.address, "nodes reach one another"
    wait_until(lambda: "no other" in told(capsys, address)[1][reach]["why"], "the other node knows of it, too")
    code, found = told(capsys, address)
    assert (code, found[reach]["verdict"]) == (1, "skip")
    assert "127.0.0.2" in found["nodes answer"]["why"]
    assert "--advertise_host" in found["nodes answer"]["do"]


def test_a_node_that_was_killed_is_found(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    second_node(cluster, tmp_path).kill()
    code, found = told(capsys, cluster.coordinator.address)
    assert code == 1
    assert found["nodes answer"]["why"].startswith("1 of 2 do not")


class Meets(node_pb2_grpc.NodeServicer):
    """A node that reaches one other of three."""

    def ReachPeers(self, request: node_pb2.ReachPeersRequest, context: Any) -> node_pb2.ReachPeersReply:
        refused = "at host:1: Connection refused"
        peers = [node_pb2.ReachedPeer(node_id=name, error=f"{name} {refused}") for name in ("dead", "shut")]
        return node_pb2.ReachPeersReply(peers=[*peers, node_pb2.ReachedPeer(node_id="open", took_us=1000)])


@pytest.mark.parametrize(
    ("told", "verdict", "why"),
    [
        ({"dead"}, "fail", "1 of 2 ways closed: one does not reach shut at host:1: Connection refused"),
        ({"dead", "shut"}, "ok", "1 way tried, the slowest took 1 ms"),
        ({"dead", "shut", "open"}, "ok", "1 way tried, the slowest took 1 ms"),
    ],
)
def test_a_node_that_is_known_to_be_gone_is_no_closed_port(told: set[str], verdict: str, why: str) -> None:
    """Seconds after a node was killed it was told as lost, and then as one whose ports are to be opened."""
    with serving(Meets()) as address:
        [found] = doctor_cluster._reach([types_pb2.NodeInfo(node_id="one", control_address=address)], "", told)
    assert (found.verdict, found.why) == (verdict, why)


class Waits(Meets):
    """As a node does that tries one that is stopped: for longer than other calls may take. All of them at once."""

    def __init__(self) -> None:
        self._all, self._never = threading.Barrier(_MANY), threading.Event()

    def ReachPeers(self, request: node_pb2.ReachPeersRequest, context: Any) -> node_pb2.ReachPeersReply:
        self._all.wait(10)
        self._never.wait(5 * SHORT_S)
        return super().ReachPeers(request, context)


SHORT_S = 0.2


def test_nodes_that_wait_for_others_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "CALL_S", SHORT_S)
    with serving(Waits()) as address:
        nodes = [types_pb2.NodeInfo(node_id=str(number), control_address=address) for number in range(_MANY)]
        [found] = doctor_cluster._reach(nodes, "", {"dead"})
    assert (found.verdict, found.why.partition(":")[0]) == ("fail", f"{_MANY} of {2 * _MANY} ways closed")


def test_of_thousands_of_nodes_no_more_are_connected_to_at_a_time_than_there_are_descriptors_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "AT_ONCE", 2)
    open_now, most, made = set[int](), list[int](), rpc.channel

    @contextmanager
    def counted(*arguments: Any) -> Iterator[grpc.Channel]:
        with made(*arguments) as channel:
            open_now.add(id(channel))
            most.append(len(open_now))
            yield channel
            open_now.remove(id(channel))

    monkeypatch.setattr(rpc, "channel", counted)
    with serving(Meets()) as address:
        nodes = [types_pb2.NodeInfo(node_id=str(number), control_address=address) for number in range(5)]
        answers = doctor_cluster._ask_all(nodes, "ReachPeers", node_pb2.ReachPeersRequest(most=1), "")
    assert [len(one.peers) for one in answers] == [3] * 5
    assert (len(most), max(most)) == (5, 2)


def test_where_no_node_answers_no_way_between_them_is_called_well(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster.node is not None
    second_node(cluster, tmp_path).kill()
    cluster.node.kill()
    code, found = told(capsys, cluster.coordinator.address)
    assert (code, found["nodes answer"]["verdict"]) == (1, "fail")
    reach = found["nodes reach one another"]
    assert (reach["verdict"], reach["why"]) == ("skip", "not tried: no node answers")


class Lonely(node_pb2_grpc.NodeServicer):
    """A node that has just come: nobody has told it of others."""

    def ReachPeers(self, request: node_pb2.ReachPeersRequest, context: Any) -> node_pb2.ReachPeersReply:
        return node_pb2.ReachPeersReply()


@pytest.mark.parametrize(
    ("servicer", "why"),
    [
        (Lonely(), "not tried: the nodes that were asked know of no other yet"),
        (None, "not tried: these nodes are older than this question"),
    ],
)
def test_no_way_tried_is_not_well(servicer: node_pb2_grpc.NodeServicer | None, why: str) -> None:
    with serving(servicer) as address:
        [found] = doctor_cluster._reach([types_pb2.NodeInfo(node_id="one", control_address=address)], "")
    assert (found.verdict, found.why) == ("skip", why)
    assert found.do


def test_who_has_no_coordinator_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = told(capsys, "localhost:1")
    assert (code, found["coordinator localhost:1"]["verdict"]) == (1, "fail")
    code, found = told(capsys, str(tmp_path))  # a disk may be looked at before there is a cache
    assert (code, found["cluster"]["verdict"], found["room"]["verdict"]) == (0, "skip", "ok"), found
    assert found["SSD wear"]["verdict"] in ("ok", "warn", "skip")
    code, found = told(capsys, str(tmp_path / "nowhere"))
    assert (code, found[f"cache directory {tmp_path / 'nowhere'}"]["verdict"]) == (1, "fail")
    (tmp_path / "file").touch()
    code, found = told(capsys, str(tmp_path / "file"))
    assert (code, found[f"cache directory {tmp_path / 'file'}"]["why"]) == (1, "it is a file")


def test_files_that_a_shell_has_made_of_a_pattern_are_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them were taken for an object store and a cluster; more were refused. A cluster may stand behind them."""
    monkeypatch.setattr(running_nodes, "directories", list)
    files = [tmp_path / f"train-{number}" for number in range(3)]
    for path in files:
        path.write_bytes(stream([b"x" * 100]))
    for some in (files[:2], files):
        code, found = told(capsys, "--store", *map(str, some))
        told_of = found[f"store {files[0]} and {len(some) - 1} more"]
        assert (code, told_of["verdict"]) == (0, "ok") and told_of["why"].startswith(f"{len(some)} objects, ")
    for behind in ("localhost:1", str(tmp_path)):
        code, found = told(capsys, "--store", *map(str, files[:2]), behind)
        assert found[f"store {files[0]} and 1 more"]["verdict"] == "ok"
        assert any(behind in what or behind in one["why"] for what, one in found.items() if "store" not in what)


def test_stores_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = told(capsys, f"--store={tmp_path}/nothing-*")
    assert (code, found[f"store {tmp_path}/nothing-*"]["why"]) == (1, "nothing is there")
    code, found = told(capsys, "--store=nope://bucket/x")
    assert (code, found["store nope://bucket/x"]["verdict"]) == (1, "fail")


def test_a_token_that_is_wrong_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    for path in (right, wrong):
        path.write_text(f"{path.name}-{path.name}-{path.name}\n")
        path.chmod(0o600)
    flags = {kind: [f"--auth_token_file={right}"] for kind in ("coordinator", "node")}
    with Cluster(tmp_path / "cluster", workers=0, flags=flags) as cluster:
        code, found = told(capsys, cluster.coordinator.address, f"--auth_token_file={wrong}")
        assert (code, found["token"]["verdict"]) == (1, "fail")
        code, found = told(capsys, cluster.coordinator.address, f"--auth_token_file={right}")
        assert (code, found["token"]["verdict"]) == (0, "ok")


def test_of_several_clusters_each_has_a_heading(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # which xdist sets
    path = "/" + "long/" * 30
    found = [(where, finding.ok("cache directory", path)) for where in ("", "/a", "/a", "/b", "")]
    command._told(found, headings=True)
    of_one = f"ok   cache directory: {path}"
    its = [
        of_one,
        "== /a",
        of_one,
        of_one,
        "== /b",
        of_one,
        "== seen from this machine",
        of_one,
        "5 ok, 0 to know of, 0 wrong",
    ]
    assert capsys.readouterr().out.splitlines() == its, "and none is broken"
