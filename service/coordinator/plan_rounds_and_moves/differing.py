"""What is to be set so that a plan is in force. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tfquiver.proto.tfquiver.v1 import types_pb2

Settings = Mapping[bytes, types_pb2.CacheSetting]


def differing(wanted: Settings, settings: Settings) -> dict[bytes, types_pb2.CacheSetting]:
    """Room is given back first. What the policy had set for data sets that nobody reads is taken away: it stays where
    it is until others want the room.

    Args:
      wanted: of data sets that are read.
      settings: that there are, by policies and by persons, whose are left alone.
    """
    decided = {digest_id: setting for digest_id, setting in settings.items() if setting.decided_by}
    gone = {digest_id: types_pb2.CacheSetting() for digest_id in decided.keys() - wanted.keys()}
    pinned = settings.keys() - decided.keys()
    changed = {
        digest_id: setting
        for digest_id, setting in wanted.items()
        if digest_id not in pinned and _differs(setting, decided.get(digest_id))
    }

    def growth_bytes(digest_id: bytes) -> int:
        before = decided.get(digest_id)
        return changed[digest_id].allocation_bytes - (before.allocation_bytes if before else 0)

    return gone | {digest_id: changed[digest_id] for digest_id in sorted(changed, key=growth_bytes)}


def _differs(setting: types_pb2.CacheSetting, before: types_pb2.CacheSetting | None) -> bool:
    return before is None or (setting.mode, setting.allocation_bytes) != (before.mode, before.allocation_bytes)
