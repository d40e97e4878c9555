"""Which nodes live, which own shards, and which reports of what they hold are applied."""

from __future__ import annotations

import pytest

from tests.support.steps import steps
from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.coordinator.nodes_mounts_dispatchers import membership
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import InventoryVerdict, Membership, Sighting

TIMEOUT_S = 10.0
APPLY, REPEATED, GAP = InventoryVerdict.APPLY, InventoryVerdict.REPEATED, InventoryVerdict.GAP


def node(node_id: str, quota_bytes: int = 1) -> types_pb2.NodeInfo:
    return types_pb2.NodeInfo(node_id=node_id, quota_bytes=quota_bytes)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def members(clock: ManualClock) -> Membership:
    return Membership(clock, TIMEOUT_S)


def test_how_long_it_has_known_nodes(members: Membership, clock: ManualClock) -> None:
    assert members.up_ms() == 1, "0 is what an older coordinator says"
    clock.advance(2.5)
    assert members.up_ms() == 2500


def test_a_node_joins_lives_and_restarts(members: Membership) -> None:
    assert members.heartbeat(node("a"), "1") is Sighting.JOINED
    assert members.heartbeat(node("a", 5), "1") is Sighting.KNOWN
    assert [info.quota_bytes for info in members.live()] == [5]
    assert members.heartbeat(node("a"), "2") is Sighting.RESTARTED
    assert members.is_live("a", "2")
    assert not members.is_live("a", "1")


def test_of_those_who_stay_nothing_is_read_anew_when_one_comes_or_goes(clock: ManualClock) -> None:
    """Of a thousand each took more than a millisecond: where many came back others were given up meanwhile."""
    costs = []
    for count in (10, 510):
        members = Membership(clock, TIMEOUT_S)
        for number in range(count):
            info = node(f"n{number:03}")
            info.labels["rack"] = "r"
            members.heartbeat(info, "1")
        costs.append(steps(lambda members=members: members.leave("n003", "1")))  # type: ignore[misc]
        assert "n003" not in members.labelled and members.labelled["n004"] == {"rack": "r"}
    assert costs[1] - costs[0] < 40 * 500


def test_an_earlier_process_is_refused(members: Membership) -> None:
    members.heartbeat(node("a"), "1")
    members.heartbeat(node("a"), "2")
    with pytest.raises(errors.InvalidArgumentError, match="node a was started again"):
        members.heartbeat(node("a"), "1")
    assert members.is_live("a", "2")
    assert not members.leave("a", "1")
    assert members.leave("a", "2")
    assert not members.leave("a", "2")
    assert members.live() == []


def test_who_is_not_heard_of_is_lost_once(members: Membership, clock: ManualClock) -> None:
    members.heartbeat(node("a"), "1")
    clock.advance(TIMEOUT_S - 1)
    members.heartbeat(node("b"), "1")
    assert members.expire() == []
    clock.advance(1)
    assert members.expire() == ["a"]
    assert members.expire() == []
    assert list(members.storing) == ["b"]
    assert members.heartbeat(node("a"), "1") is Sighting.JOINED


def test_gateways_own_nothing_and_the_owners_are_one_object_until_they_change(members: Membership) -> None:
    for name in ("b", "a"):
        members.heartbeat(node(name), "1")
    before = members.storing
    assert list(before) == ["a", "b"]
    members.heartbeat(node("gateway", 0), "1")
    members.heartbeat(node("a", 7), "1")
    assert members.storing is before
    members.heartbeat(node("a", 0), "1")
    assert list(members.storing) == ["b"]


def test_the_version_changes_with_what_others_must_know(members: Membership, clock: ManualClock) -> None:
    seen = [members.version]

    def changed() -> bool:
        seen.append(members.version)
        return seen[-1] not in seen[:-1]

    members.heartbeat(types_pb2.NodeInfo(node_id="a", quota_bytes=1600, used_bytes=1), "1")
    assert changed()
    members.heartbeat(types_pb2.NodeInfo(node_id="a", quota_bytes=1600, used_bytes=99), "1")
    assert not changed(), "every insert would send the whole list to every node"
    for info in (
        types_pb2.NodeInfo(node_id="a", quota_bytes=1600, used_bytes=101),
        types_pb2.NodeInfo(node_id="a", quota_bytes=1600, used_bytes=1590),
        types_pb2.NodeInfo(node_id="a", quota_bytes=1600, used_bytes=1595),
        types_pb2.NodeInfo(node_id="a", quota_bytes=1700, used_bytes=100),
        types_pb2.NodeInfo(node_id="a", quota_bytes=1700, used_bytes=100, data_address="host:1"),
        types_pb2.NodeInfo(node_id="b"),
    ):
        members.heartbeat(info, "1")
        assert changed()
    assert members.leave("b", "1") and changed()
    clock.advance(TIMEOUT_S)
    assert members.expire() == ["a"] and changed()


def test_many_nodes_that_fill_up_are_not_told_of_each_other_all_the_time(
    members: Membership, clock: ManualClock
) -> None:
    """Each of a thousand heartbeats a second would carry a list of a thousand."""

    def fill(sixteenths: int) -> None:
        for number in range(1000):
            info = types_pb2.NodeInfo(node_id=str(number), quota_bytes=16, used_bytes=sixteenths)
            members.heartbeat(info, "1")

    fill(0)
    told = {members.version}
    for second in range(1, 16):
        clock.advance(3.0)
        fill(second)
        told.add(members.version)
    assert 2 <= len(told) <= 4
    clock.advance(27.0)
    fill(15)
    assert members.version not in told, "the last change is told, too"
    members.heartbeat(types_pb2.NodeInfo(node_id="0", quota_bytes=16, data_address="host:1"), "1")
    assert members.version > max(told) + 1, "addresses at once"


def test_time_in_which_nobody_could_be_heard_is_not_silence(members: Membership, clock: ManualClock) -> None:
    members.heartbeat(node("a"), "1")
    clock.advance(2 * TIMEOUT_S)
    members.deaf(2 * TIMEOUT_S - 1)
    assert members.expire() == []
    clock.advance(TIMEOUT_S - 1)
    assert members.expire() == ["a"], "what it was silent for before counts"


def test_whose_message_is_read_is_heard_of_before_what_it_says_is_taken(
    members: Membership, clock: ManualClock
) -> None:
    members.heartbeat(node("a"), "1")
    for name, process in (("a", "0"), ("b", "1")):
        clock.advance(TIMEOUT_S / 4)
        members.heard(name, process)  # another process of it, and one that is no member
    clock.advance(TIMEOUT_S / 4)
    members.heard("a", "1")
    clock.advance(TIMEOUT_S - 1)
    assert members.expire() == [] and not members.is_any_due(clock.now())
    clock.advance(1)
    assert members.is_any_due(clock.now()) and members.silent(members.too_old(clock.now() - 1)) == []
    assert members.expire() == ["a"]


def test_there_is_a_limit(members: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "MAX_NODES", 1)
    members.heartbeat(node("a"), "1")
    with pytest.raises(errors.ResourceExhaustedError, match="1 nodes"):
        members.heartbeat(node("b"), "1")
    members.heartbeat(node("a"), "1")


def test_inventories_are_applied_once_in_order_and_whole_after_a_gap(members: Membership) -> None:
    def report(version: int, full: bool = False) -> InventoryVerdict:
        return members.inventory("a", pb.Inventory(version=version, full=full))

    members.heartbeat(node("a"), "1")
    assert report(3) is GAP
    assert report(4, full=True) is APPLY
    assert report(4, full=True) is REPEATED
    assert report(5) is APPLY
    assert report(5) is REPEATED
    assert report(0) is REPEATED
    assert report(7) is GAP
    assert report(6) is GAP, "once something is missing, only everything will do"
    assert report(8, full=True) is APPLY
    members.heartbeat(node("a"), "2")
    assert report(9) is GAP
    assert report(1, full=True) is APPLY
