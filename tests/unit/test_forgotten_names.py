"""Which nodes and dispatchers are meant by what is typed behind `tfquiver forget`."""

from __future__ import annotations

import pytest

from tfquiver import errors
from tfquiver.cli.forget import wanted
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1.types_pb2 import NodeInfo

NODES = pb.ListNodesReply(
    nodes=[NodeInfo(node_id="node-aaaa1111", control_address="a:1")],
    lost=[
        pb.LostNode(node=NodeInfo(node_id="node-aaaa2222", control_address="b:1")),
        pb.LostNode(node=NodeInfo(node_id="node-aaaa2333", control_address="c:1")),
        pb.LostNode(node=NodeInfo(node_id="node-without-address")),
    ],
)
DISPATCHERS = pb.ListDispatchersReply(
    dispatchers=[pb.DispatcherInfo(address="d:1")], lost=[pb.LostDispatcher(address="e:1")]
)


def meant(*names: str) -> tuple[list[str], list[str]]:
    request = wanted(names, NODES, DISPATCHERS)
    return list(request.node_ids), list(request.dispatchers)


@pytest.mark.parametrize("name", ["aaaa2222", "aaaa22", "node-aaaa2222", "b:1"])
def test_a_lost_node_by_its_id_the_beginning_of_that_or_its_address(name: str) -> None:
    assert meant(name) == (["node-aaaa2222"], [])


def test_a_whole_id_means_its_node_though_anothers_begins_with_it() -> None:
    both = pb.ListNodesReply(lost=[pb.LostNode(node=NodeInfo(node_id=name)) for name in ("node-12", "node-1")])
    assert list(wanted(["node-1"], both, DISPATCHERS).node_ids) == ["node-1"]


def test_one_that_has_not_come_back_since_a_restart_of_the_coordinator_is_named_as_a_lost_one() -> None:
    awaited = NodeInfo(node_id="node-aaaa2444", control_address="f:1")
    after = pb.ListNodesReply(nodes=NODES.nodes, lost=NODES.lost, awaited=[awaited])
    for name in ("aaaa24", "node-aaaa2444", "f:1"):
        assert list(wanted([name], after, DISPATCHERS).node_ids) == ["node-aaaa2444"]
    with pytest.raises(errors.InvalidArgumentError, match="'aaaa2' may be each of 3 nodes"):
        wanted(["aaaa2"], after, DISPATCHERS)


def test_several_and_dispatchers_by_their_addresses() -> None:
    assert meant("e:1", "c:1", "aaaa22") == (["node-aaaa2333", "node-aaaa2222"], ["e:1"])


def test_one_that_is_heard_of_is_asked_for_too_the_coordinator_refuses_it() -> None:
    assert meant("a:1") == meant("aaaa1") == (["node-aaaa1111"], [])
    assert meant("d:1") == ([], ["d:1"])


def test_a_beginning_means_lost_ones_before_those_that_are_heard_of() -> None:
    both = pb.ListNodesReply(
        nodes=[NodeInfo(node_id="node-aaaa11")], lost=[pb.LostNode(node=NodeInfo(node_id="node-aaaa22"))]
    )
    assert list(wanted(["aaaa"], both, DISPATCHERS).node_ids) == ["node-aaaa22"]


@pytest.mark.parametrize("name", ["bbbb", "", "z:1", "aaaa4"])
def test_what_means_nothing_is_said(name: str) -> None:
    with pytest.raises(errors.NotFoundError, match=f"no node or dispatcher '{name}' is lost: `tfquiver status` names"):
        meant(name)


def test_what_may_be_several_is_said() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="'aaaa2' may be each of 2 nodes: give more of its id"):
        meant("aaaa2")
