"""Which node scans the files that no data set is known of: one at a time, however many nodes are asked for them. Pure.

What is remembered is not durable: after a restart of the coordinator a node that scans says so again, and one that asks
before that scans the same.
"""

from __future__ import annotations

from tfquiver.clock import Clock

HELD_S = 10.0  # since the node said so last; it says so every few seconds
MOST = 4096


class FirstUses:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._scanned: dict[bytes, tuple[str, float]] = {}  # listing key -> node, and when it said so last

    def scanned_by(self, listing_key: bytes, node_id: str) -> str:
        """Who scans these files, if that is not `node_id`, who would; else it does from now on. Of more than can be
        remembered everybody scans its own."""
        now = self._clock.now()
        node, said_s = self._scanned.get(listing_key, (node_id, now))
        if node != node_id and now < said_s + HELD_S:
            return node
        if listing_key not in self._scanned and len(self._scanned) >= MOST:
            self._scanned = {key: one for key, one in self._scanned.items() if now < one[1] + HELD_S}
        if listing_key in self._scanned or len(self._scanned) < MOST:
            self._scanned[listing_key] = (node_id, now)
        return ""

    def over(self, listing_key: bytes) -> None:
        """They are known, or their scan has come to nothing."""
        self._scanned.pop(listing_key, None)
