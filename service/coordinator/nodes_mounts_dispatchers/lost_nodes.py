"""The nodes that were given up and are not back, for `tfquiver status`: else a row would be missing there, no more."""

from __future__ import annotations

from tfquiver.clock import Clock
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import LostNode
from tfquiver.proto.tfquiver.v1.types_pb2 import NodeInfo

MOST = 256
FORGOTTEN_S = 3600.0


class LostNodes:
    """Kept in memory only. Gateways, which keep nothing, are not missed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lost: dict[str, tuple[float, NodeInfo]] = {}  # id -> when last seen, and as what; in the order of losing

    def add(self, info: NodeInfo, last_seen: float) -> None:
        """Where there are too many, the first that were lost are forgotten."""
        if not info.quota_bytes:
            return
        self._lost.pop(info.node_id, None)
        self._lost[info.node_id] = last_seen, info
        if len(self._lost) > MOST:
            del self._lost[next(iter(self._lost))]

    def back(self, info: NodeInfo) -> None:
        """It has joined; or at the address of one that is lost another has, with an empty directory."""
        for node_id, (_, lost) in list(self._lost.items()):
            if node_id == info.node_id or (lost.control_address and lost.control_address == info.control_address):
                del self._lost[node_id]

    @property
    def node_ids(self) -> list[str]:
        now = self._clock.now()
        return [node_id for node_id, (last_seen, _) in self._lost.items() if now - last_seen < FORGOTTEN_S]

    def told(self) -> list[LostNode]:
        """Those who were lost last come first."""
        now = self._clock.now()
        self._lost = {key: one for key, one in self._lost.items() if now - one[0] < FORGOTTEN_S}
        return [
            LostNode(node=info, silent_ms=int(1000 * (now - last_seen)))
            for last_seen, info in reversed(self._lost.values())
        ]
