"""What of each data set is resident under a plan, and how much of it each job finds. Pure.

Orders are random permutations, drawn anew for each epoch, so what is resident is a random part of what a job has not
read yet. What came after a job read it counts from its next epoch on (SiloD section 6, delayed effectiveness):
`effective[j]` is the part of job j's unread records that is resident. It only grows within an epoch by what others of
the same data set bring in: of N bytes not resident these bring k, and each is as likely as another one that j lacks, so
1 - effective falls in proportion to N. So it does for a job that is stopped for another one's turn: what it has brought
in itself it does not read again in this epoch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfquiver.service.coordinator.policies.views_and_plans.interface import MODES
from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Bools, Floats, Ints

NONE, COOPERATIVE, UNIFORM, LRU = map(MODES.index, ("none", "cooperative", "uniform", "lru"))


class Contents:
    def __init__(self, sizes: Floats, jobs: int, disk: Floats | None = None, cache_bytes: float = 0.0) -> None:
        """`sizes`: bytes of records; `disk`: what all of each takes in a cache. None: as much."""
        self.disk_bytes_each = np.ones_like(sizes) if disk is None else disk / sizes  # of a byte of records
        self.sizes = sizes
        # In force: modes by their places in `MODES`; bytes on the disks, and as bytes of records.
        self.mode: Ints = np.zeros(len(sizes), np.int64)
        self.given: Ints = np.zeros(len(sizes), np.int64)
        self.allocated = np.zeros(len(sizes))
        self._resident = np.zeros(len(sizes))
        self._held: Callable[[], tuple[Ints, Floats]] | None = None  # what nobody has looked at
        self.some_lru = self.some_planned = self.some_cooperative = False  # planned: uniform or cooperative
        self._only_lru = False  # has an allocation
        # Who is under LRU, and how many: of whom this was asked last, in which modes.
        self._asked = np.zeros(0, np.int64), self.mode, np.zeros(0, np.bool_), 0
        self.effective = np.zeros(jobs)
        self._cache_bytes = cache_bytes
        self._spare_bytes, self._dataset_of = 0.0, np.zeros(jobs, np.int64)
        self._share_pool()

    @property
    def resident(self) -> Floats:
        """Bytes of each data set."""
        if self._held is not None:
            datasets, held = self._held()
            under = self._lru[datasets]
            self._resident[self._under_lru] = 0.0
            self._resident[datasets[under]] = held[under]
            self._held = None
        return self._resident

    def under_lru(self, datasets: Ints) -> tuple[Bools, int]:
        """Which are, and how many; asked several times a moment of the same ones."""
        asked, mode, lru, count = self._asked
        if asked is not datasets or mode is not self.mode:
            lru = self._lru[datasets]
            count = int(np.count_nonzero(lru))
            self._asked = datasets, self.mode, lru, count
        return lru, count

    def apply(self, datasets: Ints, modes: Ints, given: Ints, dataset_of: Ints, spare_bytes: float = 0.0) -> None:
        """What is over an allocation goes at once, drawn at random.

        Args:
          datasets: those that have an allocation, with their modes, and bytes on the disks.
          dataset_of: each job's.
          spare_bytes: of the cache; what has no allocation stays as far as others do not fill it.
        """
        mode, self.given, allocated = np.zeros_like(self.mode), np.zeros_like(self.given), np.zeros_like(self.allocated)
        mode[datasets], self.given[datasets] = modes, given
        # Rounded, all of it may be a little more than all.
        allocated[datasets] = np.minimum(given / self.disk_bytes_each[datasets], self.sizes[datasets])
        self.some_cooperative = COOPERATIVE in modes
        self.some_planned = self.some_cooperative or UNIFORM in modes
        self._only_lru = bool((modes == LRU).all())
        kept = np.zeros_like(allocated)
        if self.some_planned:
            kept = np.where((mode == UNIFORM) | (mode == COOPERATIVE), np.minimum(self.resident, allocated), 0.0)
        if spare_bytes:
            kept = np.where(mode == NONE, self.resident, kept)
        self.mode, self.allocated = mode, allocated
        self._spare_bytes, self._dataset_of = spare_bytes, dataset_of
        self._keep(kept)
        self._make_way()
        self._share_pool()

    def _make_way(self) -> None:
        """What has no allocation, for those that have: as they fill, not only when they are given theirs."""
        if not self._spare_bytes:
            return
        others = (self.mode == NONE) & (self.resident > 0)
        if not others.any():
            return
        on_disk = self.resident * self.disk_bytes_each
        there = float(on_disk[others].sum())
        room = max(0.0, self._spare_bytes - float(on_disk[~others].sum()))
        if room < there:
            self._keep(np.where(others, self.resident * (room / there), self.resident))

    def _keep(self, kept: Floats) -> None:
        less = np.flatnonzero(kept < self.resident)
        if less.size:
            left = np.ones_like(kept)
            left[less] = kept[less] / self.resident[less]
            self.effective *= left[self._dataset_of]
        self._resident, self._held = kept, None

    def _share_pool(self) -> None:
        self._lru = lru = self.mode == LRU
        self._under_lru = np.flatnonzero(lru)
        self.some_lru = bool(self._under_lru.size)
        # What all data sets under LRU have together, as bytes of records.
        self.pool_bytes = 0.0
        if self.some_lru:
            others = 0.0 if self._only_lru else float((self.allocated * self.disk_bytes_each)[~lru].sum())
            self.pool_bytes = (self._cache_bytes - others) / float(self.disk_bytes_each[self._under_lru].mean())

    def hold(self, resident: Callable[[], tuple[Ints, Floats]]) -> None:
        """What the LRU window says of its data sets, from now on: of which there is something, and how much; mostly
        nobody looks before the next time."""
        self._held = resident

    def begin_epoch(self, jobs: Ints, datasets: Ints) -> None:
        if not jobs.size:
            return
        self.effective[jobs] = self.resident[datasets] / self.sizes[datasets]

    def advance(
        self, jobs: Ints, datasets: Ints, fetched: Floats, shared: bool, paused: Ints, datasets_of_paused: Ints
    ) -> None:
        """Each of `jobs` has fetched so many bytes from the store; of a cooperative data set its part of the common."""
        if not (shared or self.some_planned or self._spare_bytes):
            return  # what is not planned keeps nothing, or what `hold` says
        mode = self.mode[datasets]
        if not shared and (mode == LRU).all():
            return
        held, sizes = self.resident[datasets], self.sizes[datasets]
        total = np.bincount(datasets, fetched, len(self.sizes))[datasets] if shared else fetched
        resident = np.minimum(held + total, np.maximum(self.allocated[datasets], held))
        resident = np.where(mode == LRU, held, resident)
        if shared:
            absent = sizes - held
            by_others = np.divide(total - fetched, total, out=np.zeros_like(total), where=total > 0)
            left = _part(sizes - resident, absent)
            apart = (mode == COOPERATIVE) & (fetched == 0)  # one that takes no part finds what the others bring in
            planned = ((mode == UNIFORM) | apart) & (by_others > 0)
            grown = 1 - (1 - self.effective[jobs]) * left**by_others
            self.effective[jobs] = np.where(planned, grown, self.effective[jobs])
        lacked = self.sizes - self.resident if shared and paused.size else None
        self.resident[datasets] = resident
        if lacked is not None:
            planned = (self.mode == UNIFORM) | (self.mode == COOPERATIVE)
            left = np.where(planned, _part(self.sizes - self.resident, lacked), 1.0)
            self.effective[paused] = 1 - (1 - self.effective[paused]) * left[datasets_of_paused]
        self._make_way()


def _part(left: Floats, of: Floats) -> Floats:
    """All of it where there is nothing."""
    return np.asarray(np.divide(left, of, out=np.ones_like(of), where=of > 0))
