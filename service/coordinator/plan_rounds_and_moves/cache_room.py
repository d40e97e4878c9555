"""What nodes can keep in all, for plans: what others write on their disks is no news each time. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tfquiver.disk_space_of_shards.node_room import most_bytes
from tfquiver.proto.tfquiver.v1 import types_pb2

# One part of the quotas in so many: whatever differs in a view makes a plan that may move data, for a policy that has
# no goal to weigh that by at once; and what has to pay in several plans in a row is begun anew. Logs and the like write
# less between two plans, for days. Of all nodes together: of many there is always one of which so much is news.
_NEWS_PARTS = 64


class CacheRoom:
    def __init__(self) -> None:
        self._quotas: dict[str, int] = {}  # by node, in the last look
        self._seen_bytes = 0  # that they can keep, as of the last news

    @property
    def keepers(self) -> int:
        """Nodes that keep anything, in the last look."""
        return len(self._quotas)

    def look(self, nodes: Iterable[types_pb2.NodeInfo]) -> int:
        """Bytes, of the live nodes; 0 where no disk takes anything or has something."""
        now_bytes, quotas = 0, dict[str, int]()
        for node in nodes:
            if node.quota_bytes:
                quotas[node.node_id] = node.quota_bytes
                now_bytes += most_bytes(node)
        is_little = abs(now_bytes - self._seen_bytes) * _NEWS_PARTS <= sum(quotas.values())
        if quotas != self._quotas or not is_little:
            self._quotas, self._seen_bytes = quotas, now_bytes
        return self._seen_bytes
