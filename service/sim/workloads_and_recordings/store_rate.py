"""What a store gives, as seen from those that wait for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

WINDOW_S = 20.0
_MOST_BYTES_PER_S = 1e15


class StoreRate:
    """The most that came in a window in which somebody waited all the time; None: nobody has. While nobody waits what
    comes is what is asked for."""

    def __init__(self) -> None:
        self.bytes_per_s: float | None = None
        self._began_s: float | None = None
        self._came_bytes = 0  # since then
        self._last: Mapping[str, int] = {}

    def add(self, now_s: float, bytes_of: Mapping[str, int] | None, waiting: bool) -> None:
        """`bytes_of`: that have ever come to each node, by its counter, which begins at 0 again with its process; None:
        not asked. One that was not there the last time has read before: after a restart of the coordinator nodes come
        back one by one."""
        if not waiting:
            self._began_s, self._last = None, {}
        elif bytes_of is not None:
            if self._began_s is None:
                self._began_s, self._came_bytes = now_s, 0
            for node, total_bytes in bytes_of.items():
                if (before := self._last.get(node)) is not None:
                    self._came_bytes += total_bytes - before if total_bytes >= before else total_bytes
            self._last = dict(bytes_of)
            if now_s - self._began_s >= WINDOW_S:
                rate = min(self._came_bytes / (now_s - self._began_s), _MOST_BYTES_PER_S)
                if rate >= 1:
                    self.bytes_per_s = max(rate, self.bytes_per_s or 0.0)
                self._began_s, self._came_bytes = now_s, 0
