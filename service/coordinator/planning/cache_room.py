"""What nodes can keep in all, for plans: what others write on their disks is no news each time. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.sizes_on_disk.node_room import most_bytes

# One part of the quota in so many: whatever differs in a view makes a plan that may move data, for a policy that has no
# goal to weigh that by at once. Logs and the like write less between two plans, for days.
_NEWS_PARTS = 64


class CacheRoom:
    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}  # by node: its quota, and what it can keep, as of the last news

    def look(self, nodes: Iterable[types_pb2.NodeInfo]) -> list[int]:
        """Of each of the live nodes that keep anything; 0 where the disk takes nothing and has nothing."""
        before, self._seen = self._seen, {}
        for node in nodes:
            if not node.quota_bytes:
                continue
            now_bytes = most_bytes(node)
            quota_bytes, seen_bytes = before.get(node.node_id, (0, 0))
            if quota_bytes == node.quota_bytes and abs(now_bytes - seen_bytes) * _NEWS_PARTS <= quota_bytes:
                now_bytes = seen_bytes
            self._seen[node.node_id] = node.quota_bytes, now_bytes
        return [kept_bytes for _, kept_bytes in self._seen.values()]
