"""Whether a peer is asked for shards now, by what came of it before. Pure."""

from __future__ import annotations

UNREACHABLE_S, _LONGEST_S = 3.0, 30.0
DISTRUST_S = 60.0
_DAMAGED_IN_A_ROW = 3  # a bad sector is one shard; a bad link or disk is many


class Standing:
    """Not thread-safe: its owner locks."""

    def __init__(self) -> None:
        self._until_s = 0.0
        self._why = ""
        self._damaged = 0
        self._unreachable_s = UNREACHABLE_S

    def avoided(self, now_s: float) -> str:
        """Why it is left alone; "" when it is not."""
        return self._why if now_s < self._until_s else ""

    def good(self) -> None:
        """It sent what it was asked for."""
        self._damaged, self._unreachable_s = 0, UNREACHABLE_S

    def unreachable(self, now_s: float) -> None:
        """To try costs some seconds, where its disk hangs each time: it is tried less and less often."""
        if not self.avoided(now_s):  # else it is the same trouble, told by another thread
            self._avoid(now_s + self._unreachable_s, "could not be reached a moment ago")
            self._unreachable_s = min(2 * self._unreachable_s, _LONGEST_S)

    def damaged(self, now_s: float) -> None:
        """It sent bytes that do not have the checksum that it gave of them: its disk, or the way here."""
        self._damaged += 1
        if self._damaged >= _DAMAGED_IN_A_ROW:
            self._damaged = 0
            self._avoid(now_s + DISTRUST_S, "has sent one damaged shard after the other")

    def wrong(self, now_s: float) -> None:
        """It sent bytes that have the checksum it gave, but not the hash they were asked for by: no accident."""
        self._avoid(now_s + DISTRUST_S, "has sent other bytes than those it was asked for")

    def _avoid(self, until_s: float, why: str) -> None:
        if until_s > self._until_s:
            self._until_s, self._why = until_s, why
