"""What a common LRU cache holds, and how much of it each job finds: from what LRU is, with nothing to fit. Pure.

LRU holds the most recently read bytes, each counted once, up to its size: all that was read since some moment, the
window's start, which only moves forward. What job j read since then is known from how far it was then and is now. Of a
random permutation an epoch, with p of the present one done and the last q of the former one within the window, that is
p + q (1 - p) of the data set: the part p of what those q were has been read again. Its next record is one that it has
not read in this epoch; it is resident if it was in those q. So hits fall to q = 0 towards the end of an epoch where
the window is no longer than it: LRU's thrashing. Orders of different jobs are independent of one another.

Of what a curriculum has sampled within the window `curricula` knows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from tfquiver.hash_prefixes_and_sorted_numbers.sorted_numbers import distinct
from tfquiver.service.sim.cache_contents.curricula import Curricula
from tfquiver.service.sim.store_bandwidth.sharing import Bools, Floats, Ints
from tfquiver.service.sim.workloads.workload import Pacing

_ALMOST_ALL, _EXACT, _LEAST_PART = 1 - 1e-12, 1e-6, 1e-9
STEPS_A_WINDOW, STEPS_AN_EPOCH = 32, 128  # rates are followed in so many steps while the window passes once


@dataclass(slots=True)
class _Front:
    """How far the jobs of `seen` are now; a moment is looked at several times."""

    seen: Ints
    done: Floats
    sizes: Floats
    datasets: Ints
    paced: Bools | None  # None: none
    began: Floats  # epochs
    began_bytes: Floats
    part: Floats  # of the present one
    rest: Floats
    window: tuple[float, float, _Window] | None = None  # the last one that was looked at, and when the oldest row was
    # When the oldest row was, where they were then, and what they had read by the next row.
    oldest: tuple[float, Floats, Floats] | None = None


@dataclass(frozen=True, slots=True)
class _Window:
    """What each job of a front has read since a moment."""

    back: Floats  # bytes: where it was then
    former: Floats  # part of its former epoch that is in the window
    covered: Floats  # part of its data set


class LruWindow:
    """Jobs and data sets by number; `sizes` are those of each job's data set. `shared`: several jobs read one."""

    def __init__(
        self, dataset_of: Ints, sizes: Floats, pacings: Sequence[Pacing | None], datasets: int, shared: bool
    ) -> None:
        """`pacings`: None: every record once an epoch."""
        self._dataset_of, self._sizes, self._datasets, self._shared = dataset_of, sizes, datasets, shared
        self.curricula = Curricula(pacings, sizes)
        self._rows: deque[tuple[float, Floats]] = deque([(0.0, np.zeros(len(sizes)))])  # when, how far each job was
        self._start = 0.0
        self._seen: Ints = np.zeros(0, np.int64)  # jobs that may have something resident
        self._noticed: tuple[Ints, Ints] = self._seen, self._seen  # who was last, and what was seen then
        self._front: _Front | None = None
        self.full = False
        self.resident = np.zeros(datasets)  # bytes of each data set

    def read(self, now: float, done: Floats, running: Ints, capacity: float) -> None:
        """Time has passed; `done`: bytes each job has read since it began."""
        last = self._rows[-1][0]
        if now > last:
            self._rows.append((now, done.copy()))
        self._notice(running)
        front = self._at_front(done)
        self._move(front, capacity)
        self.resident = self._resident(front, self._since(self._start, front))
        self._forget(front)

    def hit_parts(self, jobs: Ints, done: Floats, parts: Floats) -> Floats:
        """Of the next bytes that each of `jobs` reads. `parts`: of the data set that a curriculum samples now."""
        self._notice(jobs)
        front = self._at_front(done)
        window = self._since(self._start, front)
        own = window.former
        if front.paced is not None:
            own = np.where(front.paced, window.covered / np.maximum(parts[front.seen], _LEAST_PART), own)
        if self._shared:
            absent = np.log1p(-np.minimum(window.covered, _ALMOST_ALL))
            of_all = np.bincount(front.datasets, absent)
            own = 1 - (1 - own) * np.exp(of_all[front.datasets] - absent)
        return own[np.searchsorted(front.seen, jobs)]

    def step_s(self, now: float, epoch_s: float) -> float:
        """How long rates may be taken as constant while the window is full; `epoch_s`: of the fastest. A window that is
        short against that holds next to nothing that is needed, however it moves."""
        return max((now - self._start) / STEPS_A_WINDOW, epoch_s / STEPS_AN_EPOCH) if self.full else inf

    def epoch_counts(self, jobs: Ints, done: Floats) -> Bools:
        """Of which of `jobs` hits change when their epoch ends."""
        back = self._rows[0][1][jobs]
        if len(self._rows) > 1:
            back = back + (self._rows[1][1][jobs] - back) * self._part(self._start)
        begun = np.floor(done[jobs] / self._sizes[jobs]) * self._sizes[jobs]
        counts: Bools = (begun - back < self._sizes[jobs]) & ~self.curricula.paced[jobs]
        return counts

    def _notice(self, jobs: Ints) -> None:
        """`jobs`, in order, nearly always the same, may have something resident."""
        if self._noticed[0] is jobs and self._noticed[1] is self._seen:
            return
        at = np.searchsorted(self._seen, jobs)
        if at.size and (at[-1] == len(self._seen) or (self._seen[at] != jobs).any()):
            self._seen = distinct(np.concatenate((self._seen, jobs)))
        self._noticed = jobs, self._seen

    def _at_front(self, done: Floats) -> _Front:
        front, there = self._front, done[self._seen]
        if front is not None and front.seen is self._seen:
            if (front.done == there).all():
                return front
            sizes, datasets, paced = front.sizes, front.datasets, front.paced
        else:
            sizes, datasets = self._sizes[self._seen], self._dataset_of[self._seen]
            some = self.curricula.paced[self._seen]
            paced = some if some.any() else None
        progress = there / sizes
        began = np.floor(progress)
        part = progress - began
        self._front = _Front(self._seen, there, sizes, datasets, paced, began, began * sizes, part, 1 - part)
        return self._front

    def _move(self, front: _Front, capacity: float) -> None:
        """The window's start to where what it holds just fits."""
        most = self._bytes_since(self._start, front)
        while most > capacity * (1 + _EXACT):
            self.full = True
            after = self._rows[1][0]
            least = self._bytes_since(after, front)
            if len(self._rows) > 2 and least > capacity:
                self._rows.popleft()
                self._start, most = after, least
                continue
            self._start = self._fitting(self._start, most, after, least, front, capacity)
            return

    def _fitting(self, low: float, most: float, high: float, least: float, front: _Front, capacity: float) -> float:
        """The moment since which just `capacity` was read: by false position, as it falls almost on a line."""
        for _ in range(40):
            when = low + (high - low) * (most - capacity) / (most - least) if most > least else high
            held = self._bytes_since(when, front)
            if abs(held - capacity) <= capacity * _EXACT:
                break
            if held > capacity:
                low, most = when, held
            else:
                high, least = when, held
        return when

    def _forget(self, front: _Front) -> None:
        if self.full:
            kept = front.done > self._since(self._start, front).back
            if not kept.all():
                self._seen = front.seen[kept]

    def _back(self, when: float, front: _Front) -> Floats:
        """How far its jobs were at a moment between the two oldest rows, which is looked for among many."""
        (first, before) = self._rows[0]
        if len(self._rows) == 1:
            return before[front.seen]
        if front.oldest is None or front.oldest[0] != first:
            there = before[front.seen]
            front.oldest = first, there, self._rows[1][1][front.seen] - there
        return front.oldest[1] + front.oldest[2] * self._part(when)

    def _part(self, when: float) -> float:
        """Of the way from the oldest row to the next."""
        first, second = self._rows[0][0], self._rows[1][0]
        return min(1.0, (when - first) / (second - first))

    def _bytes_since(self, when: float, front: _Front) -> float:
        window = self._since(when, front)
        if self._shared:
            return float(self._resident(front, window).sum())
        return float(window.covered @ front.sizes)

    def _resident(self, front: _Front, window: _Window) -> Floats:
        if not self._shared:
            return np.bincount(front.datasets, window.covered * front.sizes, self._datasets).astype(np.float64)
        size_of = np.zeros(self._datasets)
        size_of[front.datasets] = front.sizes
        absent = np.bincount(front.datasets, np.log1p(-np.minimum(window.covered, _ALMOST_ALL)), len(size_of))
        held: Floats = size_of * -np.expm1(absent)
        return held

    def _since(self, when: float, front: _Front) -> _Window:
        oldest = self._rows[0][0]
        if front.window is not None and front.window[:2] == (when, oldest):
            return front.window[2]
        back = self._back(when, front)
        former = front.began - back / front.sizes
        np.minimum(np.maximum(former, 0.0, out=former), 1.0, out=former)
        within = front.part + former * front.rest
        np.copyto(within, (front.done - back) / front.sizes, where=back >= front.began_bytes)
        if front.paced is not None:
            paced = front.paced
            within[paced] = self.curricula.sampled(front.seen[paced], back[paced], front.done[paced])
        made = _Window(back, former, within)
        front.window = when, oldest, made
        return made
