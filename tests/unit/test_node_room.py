"""What a node can take, and keep in all, by its quota and its disk."""

from __future__ import annotations

import pytest

from tfquiver.cli.sim_plan_trace_commands.reading_jobs import Cluster
from tfquiver.disk_space_of_shards.node_room import most_bytes, room_bytes
from tfquiver.proto.tfquiver.v1.types_pb2 import NodeInfo


@pytest.mark.parametrize(
    ("node", "room", "most"),
    [
        (NodeInfo(quota_bytes=100, used_bytes=30), 70, 100),  # an older one
        (NodeInfo(quota_bytes=100, used_bytes=30, disk_room_bytes=500), 70, 100),
        (NodeInfo(quota_bytes=100, used_bytes=30, disk_room_bytes=20), 20, 50),
        (NodeInfo(quota_bytes=100, used_bytes=30, disk_room_bytes=0), 0, 30),
        (NodeInfo(quota_bytes=100, used_bytes=130, disk_room_bytes=20), 0, 100),  # its quota was lowered just now
        (NodeInfo(disk_room_bytes=20), 0, 0),
    ],
)
def test_whichever_is_less(node: NodeInfo, room: int, most: int) -> None:
    assert (room_bytes(node), most_bytes(node)) == (room, most)
    assert Cluster((node, node), ()).cache_bytes == 2 * most, "what `tfquiver plan` begins with"
