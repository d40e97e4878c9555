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

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from tfquiver.service.sim.cache_contents.curricula import Curricula
from tfquiver.service.sim.cache_contents.trail import Trail
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Bools, Floats, Ints, some
from tfquiver.service.sim.workloads_and_recordings.workload import Pacing
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct

_ALMOST_ALL, _EXACT, _LEAST_PART = 1 - 1e-12, 1e-6, 1e-9
STEPS_A_WINDOW, STEPS_AN_EPOCH = 32, 128  # rates are followed in so many steps while the window passes once


@dataclass(slots=True)
class _Front:
    """How far the jobs of `seen` are `now`; a moment is looked at several times."""

    now: float
    seen: Ints
    done: Floats
    sizes: Floats
    datasets: Ints
    paced: Bools | None  # None: none
    began: Floats  # epochs
    began_bytes: Floats
    part: Floats  # of the present one
    rest: Floats
    window: tuple[float, float, _Window] | None = None  # the last one that was looked at, and the oldest moment
    # When the oldest moment was, where they were then, and what they had read by the next one.
    oldest: tuple[float, Floats, Floats] | None = None


@dataclass(slots=True)  # frozen it would take twice as long to make, several times a moment
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
        self._trail = Trail(len(sizes))
        self._start = 0.0
        self._seen: Ints = np.zeros(0, np.int64)  # jobs that may have something resident
        # Who was noticed last, what was seen then, and where in it they stand.
        self._noticed: tuple[Ints, Ints, Ints] = self._seen, self._seen, self._seen
        self._front: _Front | None = None
        self._held: tuple[_Front, _Window] | None = None  # when time last passed
        self.full = False

    def read(self, now: float, since: float, done: Floats, running: Ints, capacity: float) -> None:
        """Time has passed; `done`: bytes each job has read since it began, those of `running` from `since` on."""
        self._trail.add(now, done, running, since)
        self._notice(running)
        front = self._at_front(now, done)
        self._move(front, capacity)
        window = self._since(self._start, front)
        self._held = front, window
        if self.full:
            gone = front.done <= window.back
            if some(gone):
                self._seen = front.seen[~gone]

    def resident(self) -> tuple[Ints, Floats]:
        """When time last passed: data sets, and bytes of each; nothing of others."""
        assert self._held is not None
        front, window = self._held
        if self._shared:
            return np.arange(self._datasets), self._resident_of_shared(front, window)
        return front.datasets, window.covered * front.sizes

    def hit_parts(self, now: float, jobs: Ints, done: Floats, parts: Floats) -> Floats:
        """Of the next bytes that each of `jobs` reads. `now`: when `done` was so; `parts`: of the data set that a
        curriculum samples then."""
        places = self._notice(jobs)
        front = self._at_front(now, done)
        window = self._since(self._start, front)
        own = window.former
        if front.paced is not None:
            own = np.where(front.paced, window.covered / np.maximum(parts[front.seen], _LEAST_PART), own)
        if self._shared:
            absent = np.log1p(-np.minimum(window.covered, _ALMOST_ALL))
            of_all = np.bincount(front.datasets, absent)
            own = 1 - (1 - own) * np.exp(of_all[front.datasets] - absent)
        return own[places]

    def step_s(self, now: float, epoch_s: float) -> float:
        """How long rates may be taken as constant while the window is full; `epoch_s`: of the fastest. A window that is
        short against that holds next to nothing that is needed, however it moves."""
        return max((now - self._start) / STEPS_A_WINDOW, epoch_s / STEPS_AN_EPOCH) if self.full else inf

    def epoch_counts(self, now: float, jobs: Ints, done: Floats) -> Bools:
        """Of which of `jobs` hits change when their epoch ends."""
        places = self._notice(jobs)
        front = self._at_front(now, done)
        counts: Bools = front.began_bytes - self._since(self._start, front).back < front.sizes
        if front.paced is not None:
            counts &= ~front.paced
        return counts[places]

    def _notice(self, jobs: Ints) -> Ints:
        """`jobs`, in order, nearly always the same, may have something resident. Where they stand among those."""
        noticed, seen, places = self._noticed
        if noticed is jobs and seen is self._seen:
            return places
        places = self._seen.searchsorted(jobs)
        if places.size and (places[-1] == len(self._seen) or some(self._seen[places] != jobs)):
            self._seen = distinct(np.concatenate((self._seen, jobs)))
            places = self._seen.searchsorted(jobs)
        self._noticed = jobs, self._seen, places
        return places

    def _at_front(self, now: float, done: Floats) -> _Front:
        front = self._front
        if front is not None and front.seen is self._seen:
            if front.now == now:
                return front
            sizes, datasets, paced = front.sizes, front.datasets, front.paced
        else:
            sizes, datasets = self._sizes[self._seen], self._dataset_of[self._seen]
            paced = self.curricula.paced[self._seen] if self.curricula.some else None
        there = done[self._seen]
        progress = there / sizes
        began = np.floor(progress)
        progress -= began
        self._front = _Front(
            now, self._seen, there, sizes, datasets, paced, began, began * sizes, progress, 1 - progress
        )  # fmt: skip
        return self._front

    def _move(self, front: _Front, capacity: float) -> None:
        """The window's start to where what it holds just fits."""
        most = self._bytes_since(self._start, front)
        while most > capacity * (1 + _EXACT):
            self.full = True
            after = self._trail.next_s
            least = self._bytes_since(after, front)
            if len(self._trail) > 2 and least > capacity:
                self._trail.forget_oldest()
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

    def _back(self, when: float, front: _Front) -> Floats:
        """How far its jobs were at a moment between the two oldest, which is looked for among many."""
        trail = self._trail
        if front.oldest is None or front.oldest[0] != trail.oldest_s:
            there = trail.oldest[front.seen]
            front.oldest = trail.oldest_s, there, trail.next[front.seen] - there
        _, there, ahead = front.oldest
        if trail.next_s == inf:
            return there
        back = ahead * trail.part(when)
        back += there
        return back

    def _bytes_since(self, when: float, front: _Front) -> float:
        window = self._since(when, front)
        if self._shared:
            return float(self._resident_of_shared(front, window).sum())
        return float(window.covered @ front.sizes)

    def _resident_of_shared(self, front: _Front, window: _Window) -> Floats:
        """Of each data set."""
        size_of = np.zeros(self._datasets)
        size_of[front.datasets] = front.sizes
        absent = np.bincount(front.datasets, np.log1p(-np.minimum(window.covered, _ALMOST_ALL)), len(size_of))
        held: Floats = size_of * -np.expm1(absent)
        return held

    def _since(self, when: float, front: _Front) -> _Window:
        oldest = self._trail.oldest_s
        if front.window is not None and front.window[:2] == (when, oldest):
            return front.window[2]
        back = self._back(when, front)
        # In place as far as it goes: a few hundred numbers take less than a call that makes room for them.
        former = back / front.sizes
        np.subtract(front.began, former, out=former)
        np.minimum(np.maximum(former, 0.0, out=former), 1.0, out=former)
        within = former * front.rest
        within += front.part
        of_present = front.done - back
        of_present /= front.sizes
        np.putmask(within, back >= front.began_bytes, of_present)
        if front.paced is not None:
            paced = front.paced
            within[paced] = self.curricula.sampled(front.seen[paced], back[paced], front.done[paced])
        made = _Window(back, former, within)
        front.window = when, oldest, made
        return made
