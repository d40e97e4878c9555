"""Simulated time: events in order, under a clock that only they move. Pure."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from tfquiver.clock import ManualClock


class Engine:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    @property
    def now(self) -> float:
        return self.clock.now()

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Those of one moment happen in the order in which they were asked for."""
        heapq.heappush(self._heap, (self.now + delay_s, next(self._count), action))

    def run(self, until: Callable[[], bool], limit_s: float) -> bool:
        """Until `until()`, which is asked after every event. False: nothing is left to happen, or `limit_s` is over."""
        while not until():
            if not self._heap or self._heap[0][0] > limit_s:
                return False
            when, _, action = heapq.heappop(self._heap)
            self.clock.go_to(when)
            action()
        return True
