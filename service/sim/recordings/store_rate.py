"""What a store gives, as seen from those that wait for it. Pure."""

from __future__ import annotations

WINDOW_S = 20.0
_MOST_BYTES_PER_S = 1e15


class StoreRate:
    """The most that came in a window in which somebody waited all the time; None: nobody has. While nobody waits what
    comes is what is asked for."""

    def __init__(self) -> None:
        self.bytes_per_s: float | None = None
        self._began: tuple[float, int] | None = None

    def add(self, now_s: float, total_bytes: int | None, waiting: bool) -> None:
        """`total_bytes`: that have ever come, by counters that begin at 0 again now and then; None: not asked."""
        if not waiting:
            self._began = None
        elif total_bytes is not None:
            if self._began is None or total_bytes < self._began[1]:
                self._began = now_s, total_bytes
            began_s, had_bytes = self._began
            if now_s - began_s >= WINDOW_S:
                rate = min((total_bytes - had_bytes) / (now_s - began_s), _MOST_BYTES_PER_S)
                if rate >= 1:
                    self.bytes_per_s = max(rate, self.bytes_per_s or 0.0)
                self._began = now_s, total_bytes
