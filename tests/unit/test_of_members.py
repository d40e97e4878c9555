"""What is asked of the list of nodes with every shard costs the same with a thousand nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from tests.support.digests import numbered_digest
from tests.support.steps import steps
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.connections_between_nodes.peers import PeerClient
from tfquiver.service.node.coordinator_link.of_members import Members, OfMembers
from tfquiver.service.node.disk.disk_cache import DiskCache
from tfquiver.service.node.placing_at_owners_and_writing.known_places import KnownPlaces
from tfquiver.service.node.placing_at_owners_and_writing.placer import Placer

DIGEST = numbered_digest(40)


def nodes(count: int) -> tuple[types_pb2.NodeInfo, ...]:
    return tuple(
        types_pb2.NodeInfo(
            node_id=f"n{number}", quota_bytes=1, data_address=f"h{number}:1", labels={"rack": f"r{number % 5}"}
        )
        for number in range(count)
    )


def test_it_is_made_once_for_each_list() -> None:
    lists, made = [nodes(2)], list[Members]()
    of = OfMembers(lambda: lists[-1], lambda members: made.append(members) or len(members))
    assert [of(), of(), len(made)] == [2, 2, 1]
    lists.append(nodes(3))
    assert [of(), of(), len(made)] == [3, 3, 2]


def _far(members: Members) -> Callable[[], object]:
    known = KnownPlaces("n0", lambda: members)
    return lambda: known.is_far("n1")


def _others(members: Members) -> Callable[[], object]:
    known = KnownPlaces("n0", lambda: members)
    told = pb.DatasetPlaces(digest_id=DIGEST.digest_id, places=types_pb2.Places(replicas=3), moves=True)
    told.places.groups.add(node_ids=[node.node_id for node in members])
    assert known.use(1, [told])
    return lambda: known.others(DIGEST.digest_id, bytes(32), "n1")


def _knows(members: Members) -> Callable[[], object]:
    peers = PeerClient("n0", lambda: members, "")
    return lambda: peers.knows(members[-1].node_id)


def _owner(members: Members) -> Callable[[], object]:
    placer = Placer("n0", cast(DiskCache, None), lambda: members)
    return lambda: placer.owner(bytes(32))


def _with_room(members: Members) -> Callable[[], object]:
    placer = Placer("n0", cast(DiskCache, None), lambda: members)
    return lambda: next(placer._others(bytes(32), 1))


@pytest.mark.parametrize("asked", [_far, _others, _knows, _owner, _with_room])
def test_it_costs_the_same_with_a_thousand(asked: Callable[[Members], Callable[[], object]]) -> None:
    found = []
    for count in (10, 1000):
        call = asked(nodes(count))
        assert call()
        found.append(steps(call))
    assert found[0] == found[1] > 10


def test_who_the_others_are_is_not_known_before_the_coordinator_says_so() -> None:
    members: Members = ()
    peers = PeerClient("n0", lambda: members, "")
    assert peers.others() is None
    members = (types_pb2.NodeInfo(node_id="n0"),)
    assert peers.others() == []
    members = (*members, types_pb2.NodeInfo(node_id="n1"))
    assert peers.others() == ["n1"]
