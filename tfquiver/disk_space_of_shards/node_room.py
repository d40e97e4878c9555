"""What a node can still take, and what it can keep in all: as its quota and its disk say, whichever is less. Pure."""

from __future__ import annotations

from tfquiver.proto.tfquiver.v1 import types_pb2


def room_bytes(node: types_pb2.NodeInfo) -> int:
    """By what it has told; a quota may be far larger than the disk, or others may have filled that."""
    left_bytes = max(0, node.quota_bytes - node.used_bytes)
    return min(left_bytes, node.disk_room_bytes) if node.HasField("disk_room_bytes") else left_bytes


def most_bytes(node: types_pb2.NodeInfo) -> int:
    """What it has and what it can still take. Of an older node, which does not tell of its disk, the quota."""
    if not node.HasField("disk_room_bytes"):
        return node.quota_bytes
    return min(node.quota_bytes, node.used_bytes + node.disk_room_bytes)
