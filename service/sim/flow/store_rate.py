"""What a store gives, as seen from those that wait for it. Pure."""

from __future__ import annotations

WINDOW_S = 20.0  # readers report once a second, and some of them late


class StoreRate:
    """The most that came in a window in which somebody waited all the time; None: nobody has. While nobody waits what
    comes is what is asked for."""

    def __init__(self) -> None:
        self.bytes_per_s: float | None = None
        self._began_s = self._last_s = 0.0
        self._bytes = 0

    def add(self, now_s: float, missed_bytes: int, waiting: bool) -> None:
        """So much has come since the last call."""
        if not waiting or now_s < self._last_s:
            self._began_s, self._bytes = now_s, 0
        else:
            self._bytes += missed_bytes
        self._last_s = now_s
        passed_s = now_s - self._began_s
        if passed_s >= WINDOW_S:
            rate = min(self._bytes / passed_s, 1e15)
            if rate >= 1:
                self.bytes_per_s = max(rate, self.bytes_per_s or 0.0)
            self._began_s, self._bytes = now_s, 0
