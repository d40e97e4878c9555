"""How far each of many jobs was at past moments, from the oldest that anybody still looks back to. Pure.

Thousands of jobs, of which hundreds read at a time: of a moment only these are kept, and where all were is known of the
oldest two, between which one looks back.
"""

from __future__ import annotations

from collections import deque
from math import inf

import numpy as np

from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Floats, Ints

# A window that is never full looks back to all moments there ever were. Each takes 0.4 KB, and 16 bytes for each job
# that moved: 0.4 GB in all. Of fewer there are still a hundred times as many as rates are followed in while it passes.
MOST_MOMENTS, LEAST_MOMENTS, MOST_PLACES = 1 << 18, 1 << 12, 1 << 24


class Trail:
    def __init__(self, jobs: int) -> None:
        # The oldest moment, and the one after it (inf: there is none), and how far every job was then.
        self.oldest_s, self.next_s = 0.0, inf
        self.oldest, self.next = np.zeros(jobs), np.zeros(jobs)
        # After the oldest: when, who had moved since the moment before, and how far these were.
        self._moments: deque[tuple[float, Ints, Floats]] = deque()
        self._places = 0  # in all of these
        self._last_s, self._last = 0.0, np.zeros(jobs)  # the newest moment, and how far every job was then

    def __len__(self) -> int:
        """Moments."""
        return 1 + len(self._moments)

    def add(self, now: float, done: Floats, moving: Ints, since: float) -> None:
        """`done` is how far every job is `now`. Since `since` nobody but `moving` has moved; who else has since the
        last moment, if that was before, is looked for."""
        if now <= self._last_s:
            return
        moved = moving if since == self._last_s else np.flatnonzero(done != self._last)
        there = done[moved]
        self._moments.append((now, moved, there))
        self._places += len(moved)
        self._last_s = now
        self._last[moved] = there
        if len(self._moments) == 1:
            self._look_at_next()
        elif len(self) > (LEAST_MOMENTS if self._places > MOST_PLACES else MOST_MOMENTS):
            self._thin()

    def forget_oldest(self) -> None:
        """There is another one."""
        self.oldest_s, moved, there = self._moments.popleft()
        self._places -= len(moved)
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

    def _thin(self) -> None:
        """Of two moments that follow one another after the first the later one is kept, with all who moved in both."""
        first, *others = self._moments
        self._moments = deque([first])
        for one, two in zip(others[::2], others[1::2], strict=False):
            alone = np.isin(one[1], two[1], assume_unique=True, invert=True)
            moved, there = np.concatenate((one[1][alone], two[1])), np.concatenate((one[2][alone], two[2]))
            self._moments.append((two[0], moved, there))
        self._moments.extend(others[len(others) // 2 * 2 :])
        self._places = sum(len(moved) for _, moved, _ in self._moments)
