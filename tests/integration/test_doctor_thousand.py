"""`tfquiver doctor` of a thousand nodes, whatever is wrong with each of them: what it says fits a screen."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack
from typing import Any

import grpc
import pytest

from tfquiver.cli.doctor import cluster
from tfquiver.cli.doctor.finding import Finding
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc, types_pb2
from tfquiver.version import VERSION

NODES, LATEST_S = 1000, 60.0


def node_id(address: str) -> str:
    third, fourth = address.partition(":")[0].split(".")[2:]
    return f"node-{(int(third) - 1) * 200 + int(fourth) - 1:08x}"


class Nodes(node_pb2_grpc.NodeServicer):
    """All of them: at one port, each at an address of its own of this machine."""

    def __init__(self) -> None:
        self.ahead_ms, self.asked, self.versions = 0, 0, [VERSION]

    def Status(self, request: node_pb2.StatusRequest, context: Any) -> node_pb2.StatusReply:
        self.asked += 1
        now_ms = int(time.time() * 1000) + self.ahead_ms * self.asked
        address = context._rpc_event.call_details.host.decode()  # which of them is asked: gRPC tells it nowhere else
        node = types_pb2.NodeInfo(node_id=node_id(address))
        return node_pb2.StatusReply(node=node, now_ms=now_ms, version=self.versions[self.asked % len(self.versions)])

    def ReachPeers(self, request: node_pb2.ReachPeersRequest, context: Any) -> node_pb2.ReachPeersReply:
        said = "Connection refused by a machine whose name is long: " + "x" * 500
        return node_pb2.ReachPeersReply(
            peers=[node_pb2.ReachedPeer(node_id=f"n{number}", error=said) for number in range(request.most)]
        )


@pytest.fixture
def nodes() -> Iterator[tuple[Nodes, int]]:
    made = Nodes()
    server = grpc.server(futures.ThreadPoolExecutor(16))
    node_pb2_grpc.add_NodeServicer_to_server(made, server)
    port = server.add_insecure_port("0.0.0.0:0")
    server.start()
    yield made, port
    server.stop(None).wait()


def found(ports: list[int]) -> list[Finding]:
    addresses = [f"127.0.{1 + number // 200}.{1 + number % 200}" for number in range(NODES)]
    known = [
        types_pb2.NodeInfo(
            node_id=node_id(address),
            quota_bytes=1,
            control_address=f"{address}:{ports[number % len(ports)]}",
            data_address=f"127.0.0.1:{1 + number}",
        )
        for number, address in enumerate(addresses)
    ]
    lost = [pb.LostNode(node=types_pb2.NodeInfo(node_id=f"lost-{number}")) for number in range(256)]
    began_s = time.monotonic()
    told = list(cluster._nodes(pb.ListNodesReply(nodes=known, lost=lost, up_ms=10**9), ""))
    assert time.monotonic() - began_s < LATEST_S
    assert len(told) <= 15
    assert sum(len(f"{one.what}{one.why}{one.do}") for one in told) < 8000
    return told


def test_a_thousand_nodes_with_clocks_and_versions_of_their_own_fit_a_screen(nodes: tuple[Nodes, int]) -> None:
    served, port = nodes
    served.ahead_ms, served.versions = 10_000, [f"1.2.{number}" for number in range(NODES)]
    told = {one.what: one.why for one in found([port])}
    assert told["nodes answer"] == "all 1000"
    assert len([what for what in told if what.startswith("clock of node")]) == 5
    assert "clocks of 995 more nodes" in told
    assert told["versions of nodes"].endswith(f", and 995 more; here it is {VERSION}")


def test_another_cluster_that_has_the_ports_of_nodes_does_not_answer_for_them(
    nodes: tuple[Nodes, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "node_id", lambda address: f"other-{address}")
    known = types_pb2.NodeInfo(node_id="ours", quota_bytes=1, control_address=f"127.0.1.1:{nodes[1]}")
    told = {one.what: one.why for one in cluster._nodes(pb.ListNodesReply(nodes=[known], up_ms=10**9), "")}
    assert f"another node, other-127.0.1.1:{nodes[1]}, is there now" in told["nodes answer"]


@pytest.mark.long
def test_of_a_thousand_nodes_half_of_which_hang_five_are_named(nodes: tuple[Nodes, int]) -> None:
    with ExitStack() as stack:
        hangs = stack.enter_context(socket.create_server(("0.0.0.0", 0), backlog=1024))  # never accepts
        told = {one.what: one.why for one in found([nodes[1], hangs.getsockname()[1]])}
    assert told["nodes answer"].startswith("500 of 1000 do not: ")
    assert told["nodes answer"].endswith("and 495 more")
