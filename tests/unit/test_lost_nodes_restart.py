"""Nodes that are missed are missed by a coordinator that is started again, too; nodes that have left are not."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from tfquiver import errors
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.proto.tfquiver.v1.types_pb2 import NodeInfo
from tfquiver.service.coordinator.nodes_mounts_dispatchers.lost_nodes import FORGOTTEN_S, MOST, LostNodes
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership

TIMEOUT_S = 10.0
UNIX_S = 1_700_000_000.0


class Coordinator:
    """One after the other, over one log; each one's own clock begins anew."""

    def __init__(self, log: Sequence[log_pb2.CommitRecord] = (), unix_s: float = UNIX_S) -> None:
        self.clock, self.log, self.ahead_s = ManualClock(3.0), list(log), unix_s - 3.0
        self.lost = LostNodes(self.clock, lambda: self.clock.now() + self.ahead_s, self.log.append)
        self.members = Membership(self.clock, TIMEOUT_S, lost=self.lost)
        for record in log:
            self.lost.apply(record.node_known)
        self.lost.restored()

    def killed(self, compacted: bool, away_s: float = 5.0) -> Coordinator:
        left = list(self.lost.still()()) if compacted else self.log
        log = [log_pb2.CommitRecord.FromString(one.SerializeToString()) for one in left]
        return Coordinator(log, self.clock.now() + self.ahead_s + away_s)

    def beat(self, name: str, incarnation: str = "1", address: str = "", quota_bytes: int = 9) -> None:
        address = address or f"{name}:1"
        its = NodeInfo(
            node_id=f"node-{name}", control_address=address, quota_bytes=quota_bytes, used_bytes=len(self.log)
        )
        self.members.heartbeat(its, incarnation)

    def silence(self, *but: str) -> None:
        """All but these are silent for the timeout."""
        self.clock.advance(TIMEOUT_S)
        for name in but:
            self.beat(name)
        self.members.expire()

    @property
    def missed(self) -> dict[str, int]:
        """Silent for so many seconds."""
        return {one.node.node_id: round(one.silent_ms / 1000) for one in self.lost.told()}

    @property
    def log_bytes(self) -> int:
        return sum(record.ByteSize() for record in self.log)


compacted = pytest.mark.parametrize("compacted", [False, True])


@compacted
def test_who_is_missed_is_missed_for_an_hour_however_often_the_coordinator_is_started(compacted: bool) -> None:
    coordinator = Coordinator()
    coordinator.beat("a")
    coordinator.beat("b")
    coordinator.silence("b")
    for _ in range(3):
        coordinator = coordinator.killed(compacted, 1000.0)
        coordinator.beat("b")
        assert coordinator.missed.keys() == {"node-a"}
    assert coordinator.missed == {"node-a": TIMEOUT_S + 3000}
    assert [one.node.control_address for one in coordinator.lost.told()] == ["a:1"]
    coordinator.clock.advance(FORGOTTEN_S - 3000 - TIMEOUT_S - 1)
    assert coordinator.missed
    coordinator.clock.advance(1)
    assert not coordinator.missed
    assert not coordinator.killed(compacted).missed


@compacted
def test_who_died_while_no_coordinator_was_there_is_missed_after_the_timeout_and_who_comes_back_never_is(
    compacted: bool,
) -> None:
    coordinator = Coordinator()
    for name in ("a", "b", "c"):
        coordinator.beat(name)
    coordinator = coordinator.killed(compacted)
    coordinator.clock.advance(TIMEOUT_S - 1)
    coordinator.members.expire()
    assert not coordinator.missed
    coordinator.beat("b", "2", "elsewhere:1")  # it was started again
    coordinator.beat("new", address="c:1")  # in the place of that one, with an empty directory
    coordinator.clock.advance(1)
    coordinator.members.expire()
    assert coordinator.missed == {"node-a": TIMEOUT_S}
    coordinator = coordinator.killed(compacted)
    assert coordinator.missed == {"node-a": TIMEOUT_S + 5}
    coordinator.beat("a", "2")
    assert not coordinator.missed
    assert not coordinator.killed(compacted).missed


def test_what_nobody_could_hear_is_no_silence_of_who_has_yet_to_come_back() -> None:
    coordinator = Coordinator()
    coordinator.beat("a")
    coordinator = coordinator.killed(False)
    coordinator.clock.advance(TIMEOUT_S)
    coordinator.members.deaf(TIMEOUT_S)
    coordinator.members.expire()
    assert not coordinator.missed


@compacted
def test_who_has_left_is_forgotten_also_when_it_was_lost_before_or_not_yet_back(compacted: bool) -> None:
    coordinator = Coordinator()
    for name in ("left", "lost", "away", "gateway"):
        coordinator.beat(name, quota_bytes=0 if name == "gateway" else 9)
    assert coordinator.members.leave("node-left", "1")
    coordinator.silence("away")
    assert coordinator.missed.keys() == {"node-lost"}
    coordinator.members.leave("node-lost", "1")
    assert not coordinator.missed
    coordinator = coordinator.killed(compacted)
    coordinator.members.leave("node-away", "1")
    coordinator.silence()
    assert not coordinator.missed
    coordinator = coordinator.killed(compacted)
    coordinator.silence()
    assert not coordinator.missed


@compacted
def test_who_is_gone_for_good_is_forgotten_also_after_a_restart_and_may_come_back(compacted: bool) -> None:
    coordinator = Coordinator()
    for name in ("a", "b", "c", "lives"):
        coordinator.beat(name)
    coordinator.silence("lives")
    assert coordinator.missed.keys() == {"node-a", "node-b", "node-c"}
    assert coordinator.members.forget(["node-a", "node-a", "nobody"]) == ["node-a"]
    assert coordinator.members.forget(["node-a"]) == [], "it is no other when it is said again"
    coordinator = coordinator.killed(compacted)
    assert coordinator.missed.keys() == {"node-b", "node-c"}
    coordinator.beat("a")
    coordinator.silence()
    assert coordinator.missed.keys() == {"node-a", "node-b", "node-c", "node-lives"}
    assert {*coordinator.members.forget([], all_lost=True)} == {"node-a", "node-b", "node-c", "node-lives"}
    assert not coordinator.missed
    assert not coordinator.killed(compacted).missed


def test_those_that_are_too_many_to_be_missed_are_not_either_when_the_others_are_forgotten() -> None:
    """After a restart they took the places of these."""
    coordinator = Coordinator()
    for number in range(MOST + 5):
        coordinator.beat(str(number))
    coordinator.silence()
    assert len(coordinator.members.forget([], all_lost=True)) == MOST
    assert not coordinator.killed(False).missed
    of_older = [
        log_pb2.CommitRecord(node_known=log_pb2.NodeKnown(node=NodeInfo(node_id=f"{n}"), heard_s=int(UNIX_S)))
        for n in range(MOST + 5)
    ]
    coordinator = Coordinator(of_older)
    assert len(coordinator.members.forget([], all_lost=True)) == MOST
    assert not coordinator.killed(False).missed


def test_who_has_yet_to_come_back_may_be_forgotten_by_name_and_not_with_those_that_are_lost() -> None:
    coordinator = Coordinator()
    for name in ("a", "b"):
        coordinator.beat(name)
    coordinator = coordinator.killed(False)
    assert coordinator.members.forget([], all_lost=True) == []
    assert coordinator.members.forget(["node-a"]) == ["node-a"]
    coordinator.silence()
    assert coordinator.missed.keys() == {"node-b"}


def test_of_those_that_live_none_is_forgotten_nor_is_any_that_is_named_beside_one() -> None:
    coordinator = Coordinator()
    for name in ("a", "lives"):
        coordinator.beat(name)
    coordinator.silence("lives")
    with pytest.raises(errors.InUseError, match="node node-lives is heard of, 0 s ago for the last time: stop it, or "):
        coordinator.members.forget(["node-a", "node-lives"], all_lost=True)
    assert coordinator.missed.keys() == {"node-a"}


@pytest.mark.slow
def test_who_comes_back_is_not_compared_with_all_that_are_still_away() -> None:
    """Of 16 times as many, all of which are awaited, each takes as long."""

    def seconds(count: int) -> float:
        log = [
            log_pb2.CommitRecord(
                node_known=log_pb2.NodeKnown(
                    node=NodeInfo(node_id=f"node-{n}", control_address=f"{n}:1", quota_bytes=9)
                )
            )
            for n in range(count)
        ]
        coordinator = Coordinator(log)
        came = [NodeInfo(node_id=f"new-{n}", control_address=f"new-{n}:1", quota_bytes=9) for n in range(500)]
        began_s = time.process_time()
        for one in came:
            coordinator.lost.there(one)
        return time.process_time() - began_s

    assert min(seconds(8000) for _ in range(3)) < 5 * min(seconds(500) for _ in range(3))


def test_one_that_was_started_with_an_empty_directory_before_the_other_was_given_up_takes_its_place() -> None:
    coordinator = Coordinator()
    coordinator.beat("a")
    coordinator.clock.advance(1)
    coordinator.beat("new", address="a:1")
    coordinator.silence("b")
    assert coordinator.missed == {"node-new": TIMEOUT_S}
    assert coordinator.killed(False).missed == {"node-new": TIMEOUT_S + 5}


def test_one_that_keeps_nothing_any_more_is_not_missed() -> None:
    coordinator = Coordinator()
    coordinator.beat("a")
    coordinator.beat("a", quota_bytes=0)
    coordinator.silence()
    assert not coordinator.missed
    coordinator = coordinator.killed(False)
    coordinator.silence()
    assert not coordinator.missed


def test_of_a_thousand_nodes_the_log_has_each_once_and_nothing_of_their_heartbeats() -> None:
    coordinator = Coordinator()
    names = [f"{number:032x}" for number in range(1000)]
    for _ in range(5):
        for name in names:
            coordinator.beat(name, address=f"{name}.nodes.example:5041")
        coordinator.clock.advance(2)
    assert len(coordinator.log) == 1000
    assert coordinator.log_bytes < 150_000
    coordinator = coordinator.killed(False)
    for name in names:
        coordinator.beat(name, address=f"{name}.nodes.example:5041")
    assert len(coordinator.log) == 1000, "who comes back as it was is not written again"
    coordinator.silence()
    assert (len(coordinator.log), len(coordinator.missed)) == (3000 - MOST, MOST)
    assert coordinator.killed(False).missed.keys() == coordinator.missed.keys()
    assert len(list(coordinator.lost.still()())) == MOST, "nor is more of it in a snapshot"


def test_clocks_that_are_set_make_nobody_silent_for_less_than_nothing() -> None:
    coordinator = Coordinator()
    coordinator.beat("a")
    coordinator.silence()
    assert coordinator.killed(False, -5000.0).missed == {"node-a": 0}
