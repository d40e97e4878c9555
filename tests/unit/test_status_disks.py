"""What `tfquiver status` says of disks that are full, too small, or do not answer."""

from __future__ import annotations

from tests.unit.test_status_tables import told
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.cli.status_tables_and_warnings import nodes_view, status_view
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, types_pb2


def test_a_disk_that_is_full_before_its_quota_is_named_with_what_to_do() -> None:
    well = told("run")
    node = well["nodes"][0] | {"quota_bytes": 10**12, "used_bytes": 10**11}
    for room, is_full in ((0, True), (10**9, True), (2 * 10**9, False)):
        found = status_view.problems(well | {"nodes": [node | {"disk_room_bytes": room}]})
        assert any("its disk is full" in line and "smaller --quota" in line for line in found) == is_full, room
    used_up = node | {"used_bytes": 10**12, "disk_room_bytes": 0}
    for quiet in (node, used_up):  # it is older and does not say; it wants nothing more
        assert not any("disk" in line for line in status_view.problems(well | {"nodes": [quiet]}))


def test_of_a_full_disk_it_is_said_who_else_has_a_cache_on_it() -> None:
    well = told("run")
    node = well["nodes"][0] | {"quota_bytes": 10**12, "used_bytes": 10**11, "disk_room_bytes": 0}
    for others, said in (
        (["/ssd/old"], "; caches of yours are on it in /ssd/old, too"),
        (
            [f"/ssd/{number}" for number in range(5)],
            "; caches of yours are on it in /ssd/0, /ssd/1, /ssd/2 and 2 more, too",
        ),
    ):
        [found] = nodes_view.full_disks([node | {"disk_shared_with": others}])
        assert found.endswith(said), found
    [found] = nodes_view.full_disks([node])
    assert found.endswith("with a smaller --quota")


def test_a_data_set_for_which_the_disks_have_no_room_is_too_large_whatever_the_quotas_are() -> None:
    well = told("run")
    node = well["nodes"][0] | {"quota_bytes": 10**13, "used_bytes": 10**12, "refused_inserts": 9}
    pinned = well["datasets"][0] | {"size_bytes": 5 * 10**12, "cache": {"mode": "uniform"}}
    for room, said in ((2 * 10**12, ["data set run (5.0 TB)"]), (10**13, ["node 01234567"]), (None, ["node 01234567"])):
        small = node if room is None else node | {"disk_room_bytes": room}
        found = status_view.problems(well | {"nodes": [small], "datasets": [pinned], "sessions": []})
        assert [line.partition(" is larger")[0].partition(":")[0] for line in found] == said, room
        assert room != 2 * 10**12 or "what the nodes' quotas and disks have room for (3.0 TB)" in found[0]


def test_a_disk_that_does_not_answer_is_a_problem() -> None:
    well = told("run")
    node = well["nodes"][0] | {"disk_hangs_ms": 41_000}
    (found,) = status_view.problems(well | {"nodes": [node], "sessions": []})
    assert found.startswith("node 01234567: its disk has not answered for 41 s")
    assert "evicted or deleted wait for it" in found


def test_of_a_lost_node_nobody_knows_what_its_disk_has() -> None:
    """The schema has no such field for one: a heartbeat said so before it was lost."""
    info = types_pb2.NodeInfo(node_id="n", control_address="h:1", disk_room_bytes=5)
    lost = status._lost(coordinator_pb2.LostNode(node=info, silent_ms=3))
    assert "disk_room_bytes" not in lost and (lost["node_id"], lost["silent_ms"]) == ("n", 3)
