"""What leaves the object store, whatever for: for people, who are shown it at once and a short read, too. Pure.

Not what the policy goes by: a scan's reads are of another size than a miss's, and end (`store_meter` has those).
"""

from __future__ import annotations

from collections import deque

SPAN_S = 10  # every node is heard of in that time, of thousands, too
_STEPS = 360  # an hour


class StoreOutflow:
    """`now`: seconds of a clock that does not go back."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, int]] = deque()  # each that brought something: when, how many bytes
        self._steps: deque[tuple[int, float]] = deque(maxlen=_STEPS)  # SPAN_S each: the most within it

    def take(self, size_bytes: int, now: float) -> None:
        if size_bytes <= 0:
            return
        second = int(now)
        if self._seconds and self._seconds[-1][0] == second:
            size_bytes += self._seconds.pop()[1]
        self._seconds.append((second, size_bytes))
        rate, step = self.bytes_per_s(now), second // SPAN_S
        if self._steps and self._steps[-1][0] == step:
            rate = max(rate, self._steps.pop()[1])
        self._steps.append((step, rate))

    def bytes_per_s(self, now: float) -> float:
        """Of the last ten seconds."""
        while self._seconds and self._seconds[0][0] <= int(now) - SPAN_S:
            self._seconds.popleft()
        return sum(size_bytes for _, size_bytes in self._seconds) / SPAN_S

    def most_bytes_per_s(self, now: float) -> float:
        """Of any ten seconds in the last hour."""
        since = int(now) // SPAN_S - _STEPS
        return max((rate for step, rate in self._steps if step > since), default=0.0)
