"""A disk that refuses is not asked again at once: each try may cost an entry that had to make way. Pure."""

from __future__ import annotations

_FIRST_S, _LAST_S = 0.5, 10.0


class Setback:
    """Not thread-safe: its owner locks. Times are of one clock that never goes back."""

    def __init__(self) -> None:
        self._pause_s = _FIRST_S
        self._until_s = 0.0
        self._why = ""

    def failed(self, why: str, now_s: float) -> None:
        """A write came to nothing: nothing is tried for a while, for longer each time."""
        self._until_s, self._why = now_s + self._pause_s, why
        self._pause_s = min(2 * self._pause_s, _LAST_S)

    def over(self) -> None:
        """A write went well."""
        self._pause_s, self._until_s = _FIRST_S, 0.0

    def trouble(self, now_s: float) -> str:
        """Why nothing should be tried now; empty: it may be."""
        return self._why if now_s < self._until_s else ""
