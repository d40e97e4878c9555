"""How full the dashboard shows nodes, and since when its coordinator knows anything."""

from __future__ import annotations

import pytest

from tfquiver.cli.dashboard.shown import shown

STATUS = {
    "coordinator": "c:5040", "problems": [], "going_on": {}, "hit_ratio": None, "saved": {}, "store": {},
    "nodes": [], "lost_nodes": [], "datasets": [], "sessions": [], "dispatchers": [],
}  # fmt: skip


@pytest.mark.parametrize(("disk_room", "takes"), [(0, 40), (7, 47), (500, 200), (None, 200)])
def test_a_node_is_as_full_as_its_disk_is(disk_room: int | None, takes: int) -> None:
    node = {"node_id": "host-1", "used_bytes": 40, "quota_bytes": 200}
    if disk_room is not None:
        node["disk_room_bytes"] = disk_room
    [told] = shown(STATUS | {"nodes": [node]})["nodes"]
    assert (told["used_bytes"], told["quota_bytes"]) == (40, takes)


def test_a_spot_node_that_is_gone_is_no_failure() -> None:
    lost = [
        {"node_id": "host-1", "quota_bytes": 200, "silent_ms": 12_345, "labels": {"lifecycle": "spot", "rack": "r"}},
        {"node_id": "host-2", "quota_bytes": 200, "silent_ms": 9_000, "labels": {"rack": "r"}},
    ]
    told = shown(STATUS | {"lost_nodes": lost})["nodes"]
    assert [(one["rack"], one.get("lost_s"), one.get("gone_s")) for one in told] == [("r", None, 12), ("r", 9, None)]


@pytest.mark.parametrize(
    ("up_ms", "said"),
    [(1, "0 min"), (59_999, "0 min"), (3_599_000, "59 min"), (7_200_000, "2 h"), (86_399_000, "23 h")],
)
def test_after_a_restart_of_the_coordinator_it_is_said_why_nothing_was(up_ms: int, said: str) -> None:
    [line] = shown(STATUS | {"coordinator_up_ms": up_ms})["going_on"]
    assert line.startswith(f"the coordinator was started {said} ago: of jobs, epochs and chunks nothing is shown from")


@pytest.mark.parametrize("known", [{"coordinator_up_ms": 86_400_000}, {"coordinator_up_ms": 0}, {}])
def test_where_it_is_older_than_what_is_shown_or_does_not_say_it_is_not(known: dict[str, int]) -> None:
    assert shown(STATUS | known)["going_on"] == []


def test_of_the_coordinator_of_one_node_it_is_not_said() -> None:
    assert shown(STATUS | {"coordinator": "unix:/d/c.sock", "coordinator_up_ms": 9000})["going_on"] == []
