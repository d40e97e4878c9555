"""When people are told that something is still waited for (pure)."""

from __future__ import annotations

FIRST_S = 2.0
UNTIL_SAID_S = 60.0
_LONGEST_S = 1800.0


class Reminders:
    """Due after `first_s` seconds, then after pauses twice as long each, of at most half an hour.

    Args:
      began_s: of the same clock as every `now_s`.
      then_s: the least pause after the first one; for those whose line says until when something is waited for.
    """

    def __init__(self, began_s: float, first_s: float = FIRST_S, then_s: float = 0.0) -> None:
        self._next_s, self._pause_s = began_s + first_s, max(first_s, then_s / 2)

    def left_s(self, now_s: float) -> float:
        """Until the next one is due."""
        return max(0.0, self._next_s - now_s)

    def is_due(self, now_s: float) -> bool:
        """Once for each."""
        if now_s < self._next_s:
            return False
        self._pause_s = min(self._pause_s * 2, _LONGEST_S)
        self._next_s = now_s + self._pause_s
        return True
