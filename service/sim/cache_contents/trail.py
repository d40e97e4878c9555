"""How far each of many jobs was at past moments, from the oldest that anybody still looks back to. Pure.

Thousands of jobs, of which hundreds read at a time: of a moment only these are kept, and where all were is known of the
oldest two, between which one looks back.
"""

from __future__ import annotations

from collections import deque
from math import inf

import numpy as np

from tfquiver.service.sim.store_bandwidth.sharing import Floats, Ints


class Trail:
    def __init__(self, jobs: int) -> None:
        # The oldest moment, and the one after it (inf: there is none), and how far every job was then.
        self.oldest_s, self.next_s = 0.0, inf
        self.oldest, self.next = np.zeros(jobs), np.zeros(jobs)
        # After the oldest: when, who had moved since the moment before, and how far these were.
        self._moments: deque[tuple[float, Ints, Floats]] = deque()
        self._last_s = 0.0

    def __len__(self) -> int:
        """Moments."""
        return 1 + len(self._moments)

    def add(self, now: float, done: Floats, moving: Ints, since: float) -> None:
        """`done` is how far every job is `now`. Since `since` nobody but `moving` has moved; who else has since the
        last moment, if that was before, is looked for."""
        if now <= self._last_s:
            return
        moved = moving if since == self._last_s else np.flatnonzero(done != self._last())
        self._moments.append((now, moved, done[moved]))
        self._last_s = now
        if len(self._moments) == 1:
            self._look_at_next()

    def forget_oldest(self) -> None:
        """There is another one."""
        self.oldest_s, moved, there = self._moments.popleft()
        self.oldest[moved] = there
        self._look_at_next()

    def part(self, when: float) -> float:
        """Of the way from the oldest moment to the next."""
        return min(1.0, (when - self.oldest_s) / (self.next_s - self.oldest_s))

    def _look_at_next(self) -> None:
        self.next_s = inf
        if self._moments:
            self.next_s, moved, there = self._moments[0]
            self.next[moved] = there

    def _last(self) -> Floats:
        last = self.oldest.copy()
        for _, moved, there in self._moments:
            last[moved] = there
        return last
