"""Who is given up is told of until it is back, and who has told peers a wrong address: as `tfquiver status` says it."""

from __future__ import annotations

from typing import Any

from tfquiver.cli.status_tables_and_warnings import nodes_view
from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1.types_pb2 import NodeInfo
from tfquiver.service.coordinator.nodes_mounts_dispatchers.lost_nodes import FORGOTTEN_S, MOST, LostNodes
from tfquiver.service.coordinator.nodes_mounts_dispatchers.membership import Membership

TIMEOUT_S = 10.0


def info(name: str, address: str = "", quota_bytes: int = 9) -> NodeInfo:
    return NodeInfo(node_id=f"node-{name}", control_address=address or f"{name}:1", quota_bytes=quota_bytes)


def lost(members: Membership) -> list[tuple[str, int]]:
    return [(one.node.node_id, one.silent_ms) for one in members.lost.told()]


def test_a_lost_node_is_told_of_until_it_is_back_and_one_that_has_left_is_not() -> None:
    clock = ManualClock()
    members = Membership(clock, TIMEOUT_S)
    for name in ("a", "b", "left"):
        members.heartbeat(info(name), "1")
    members.heartbeat(info("gateway", quota_bytes=0), "1")
    assert members.leave("node-left", "1")
    clock.advance(TIMEOUT_S)
    members.heartbeat(info("b"), "1")
    members.expire()
    assert lost(members) == [("node-a", 10_000)]
    clock.advance(5)
    assert lost(members) == [("node-a", 15_000)]
    members.heartbeat(info("a"), "2")
    assert lost(members) == []


def test_one_with_an_empty_directory_takes_the_place_of_the_lost_one_at_its_address() -> None:
    clock = ManualClock()
    members = Membership(clock, TIMEOUT_S)
    for name in ("a", "b"):
        members.heartbeat(info(name), "1")
    clock.advance(TIMEOUT_S)
    members.expire()
    assert [name for name, _ in lost(members)] == ["node-b", "node-a"], "the last one first"
    members.heartbeat(info("new", "a:1"), "1")
    assert [name for name, _ in lost(members)] == ["node-b"]


def test_of_several_at_one_address_who_was_heard_of_last_takes_the_place_of_the_others() -> None:
    clock = ManualClock()
    members = Membership(clock, TIMEOUT_S)
    for name, address in (("a", "x:1"), ("b", "x:1"), ("moves", "y:1"), ("c", "x:1"), ("left", "x:1")):
        members.heartbeat(info(name, address), "1")
        clock.advance(1)
    members.heartbeat(info("b", "x:1"), "1")
    clock.advance(1)
    members.heartbeat(info("moves", "x:1"), "1")
    members.leave("node-left", "1")
    clock.advance(TIMEOUT_S - 4)
    assert members.expire() == ["node-a"]
    assert lost(members) == [], "others are there"
    members.heartbeat(info("moves", "y:1"), "1")
    clock.advance(4)
    assert members.expire() == ["node-c", "node-b"]
    assert [name for name, _ in lost(members)] == ["node-b"], "who was at its address after it is elsewhere now"


def test_they_are_forgotten_after_an_hour_and_where_there_are_too_many() -> None:
    clock = ManualClock()
    kept = LostNodes(clock)
    for number in range(MOST + 5):
        kept.add(info(str(number)), clock.now())
    assert [one.node.node_id for one in kept.told()] == [f"node-{n}" for n in range(MOST + 4, 4, -1)]
    clock.advance(FORGOTTEN_S)
    assert kept.told() == []


def node(name: str, address: str, quota_bytes: int = 9, **more: Any) -> dict[str, Any]:
    return {"node_id": f"node-{name}", "control_address": address, "quota_bytes": quota_bytes, **more}


def test_status_says_who_is_lost() -> None:
    (said,) = nodes_view.problems([], [node("073aa261", "10.0.0.3:35073", silent_ms=125_900)])
    assert said.startswith("node 073aa261 at 10.0.0.3:35073 is lost: not heard of for 125 s; ")
    assert said.endswith(
        "start it again, with the flags that it had; where it is gone for good, `tfquiver forget 073aa261`, else it is "
        "forgotten after an hour"
    )


def test_a_spot_node_that_is_gone_is_told_and_is_no_problem() -> None:
    spot = [node(f"{n:08x}", "10.0.0.3:1", silent_ms=1000 * n, labels={"lifecycle": "spot"}) for n in range(7)]
    assert list(nodes_view.problems([], spot)) == []
    (line,) = nodes_view.gone_spot(spot)
    assert line.startswith("7 spot nodes are gone, as they may be, in the last hour: 00000000 0 s ago, 00000001 1 s ")
    assert line.endswith("00000004 4 s ago, ...")
    missed = node("a", "10.0.0.4:1", silent_ms=9_000, labels={"lifecycle": "normal"})
    assert len(list(nodes_view.problems([], [*spot, missed]))) == 1
    assert list(nodes_view.gone_spot([missed])) == []


def test_of_a_rack_that_is_lost_some_are_named_and_the_rest_counted() -> None:
    rack = [node(f"{number:08x}", f"10.0.0.{number}:1", silent_ms=9_000) for number in range(40)]
    *named, rest = nodes_view.problems([], rack)
    assert len(named) == 5 and named[4].startswith("node 00000004 at ")
    assert rest == (
        "35 more nodes are lost: `tfquiver status --json` has all; where all are gone for good, `tfquiver forget "
        "--all_lost`"
    )
    assert list(nodes_view.problems([], rack[:5])) == named


def test_a_node_that_is_localhost_to_its_peers_is_named_whether_it_answers_here_or_not() -> None:
    far = node("far", "10.0.0.3:1")
    for near in (node("near", "localhost:1"), node("near", "localhost:1", error="no answer")):
        (said,) = nodes_view.problems([far, near], [])
        assert said.startswith("node near has told its peers that it is at localhost:1, ")
        assert "--advertise_host" in said and "--coordinator" in said
    gateway = node("gateway", "localhost:2", 0, error="no answer")
    assert list(nodes_view.problems([far, gateway], [])) == [], "nobody asks it for shards"


def test_on_one_machine_localhost_is_right() -> None:
    nodes = [node("a", "localhost:1"), node("b", "127.0.0.1:2", error="b is silent"), node("c", "unix:/run/c")]
    assert list(nodes_view.problems(nodes, [])) == ["b is silent"]
