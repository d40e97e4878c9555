"""What the mounts of this node show, for its heartbeats: they have no sessions. Lives on the node's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.node.coordinator_link.in_turn import InTurn

MOST_TOLD = 256


@dataclass(slots=True)
class _Shown:
    mounts: int = 0
    read_at_s: float | None = None


class ShownByMounts:
    def __init__(self) -> None:
        self._shown: dict[bytes, _Shown] = {}  # by digest id
        self._in_turn = InTurn(MOST_TOLD)
        self.on_change: Callable[[], None] = lambda: None  # told that other data sets are shown than before

    def begins(self, digest_id: bytes) -> None:
        """A mount shows that one, too."""
        if digest_id not in self._shown:
            self._shown[digest_id] = _Shown()
            self.on_change()
        self._shown[digest_id].mounts += 1

    def read(self, digest_id: bytes) -> None:
        if shown := self._shown.get(digest_id):
            shown.read_at_s = asyncio.get_running_loop().time()

    def ends(self, digest_id: bytes) -> None:
        """Once for each `begins`."""
        self._shown[digest_id].mounts -= 1
        if not self._shown[digest_id].mounts:
            del self._shown[digest_id]
            self.on_change()

    def reports(self) -> list[pb.MountReport]:
        """Of all, or of so many in turn."""
        now_s, told = asyncio.get_running_loop().time(), list[pb.MountReport]()
        for digest_id in self._in_turn.some(list(self._shown)):
            shown = self._shown[digest_id]
            idle_ms = None if shown.read_at_s is None else int(1000 * (now_s - shown.read_at_s))
            told.append(pb.MountReport(digest_id=digest_id, mounts=shown.mounts, idle_ms=idle_ms))
        return told
