"""How full the dashboard shows nodes."""

from __future__ import annotations

import pytest

from tfquiver.cli.dashboard.shown import shown


@pytest.mark.parametrize(("disk_room", "takes"), [(0, 40), (7, 47), (500, 200), (None, 200)])
def test_a_node_is_as_full_as_its_disk_is(disk_room: int | None, takes: int) -> None:
    node = {"node_id": "host-1", "used_bytes": 40, "quota_bytes": 200}
    if disk_room is not None:
        node["disk_room_bytes"] = disk_room
    status = {
        "coordinator": "", "problems": [], "going_on": {}, "hit_ratio": None, "saved": {}, "store": {},
        "nodes": [node], "lost_nodes": [], "datasets": [], "sessions": [], "dispatchers": [],
    }  # fmt: skip
    [told] = shown(status)["nodes"]
    assert (told["used_bytes"], told["quota_bytes"]) == (40, takes)
