"""What of each data set is resident under a plan, and how much of it each job finds. Pure.

Orders are random permutations, drawn anew for each epoch, so what is resident is a random part of what a job has not
read yet. What came after a job read it counts from its next epoch on (SiloD section 6, delayed effectiveness):
`effective[j]` is the part of job j's unread records that is resident. It only grows within an epoch by what others of
the same data set bring in: of N bytes not resident these bring k, and each is as likely as another one that j lacks, so
1 - effective falls in proportion to N. So it does for a job that is stopped for another one's turn: what it has brought
in itself it does not read again in this epoch.
"""

from __future__ import annotations

import numpy as np

from tfquiver.service.coordinator.policies.views_and_plans.interface import MODES
from tfquiver.service.sim.store_bandwidth.sharing import Floats, Ints

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
        self.resident = np.zeros(len(sizes))
        self.effective = np.zeros(jobs)
        self._cache_bytes = cache_bytes
        self._spare_bytes, self._dataset_of = 0.0, np.zeros(jobs, np.int64)
        self._share_pool()

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
        left = np.divide(kept, self.resident, out=np.ones_like(kept), where=self.resident > 0)
        if (left < 1).any():
            self.effective *= left[self._dataset_of]
        self.resident = kept

    def _share_pool(self) -> None:
        self._lru = lru = self.mode == LRU
        self.some_lru = bool(lru.any())
        # What all data sets under LRU have together, as bytes of records.
        self.pool_bytes = 0.0
        if self.some_lru:
            left_bytes = self._cache_bytes - float((self.allocated * self.disk_bytes_each)[~lru].sum())
            self.pool_bytes = left_bytes / float(self.disk_bytes_each[lru].mean())

    def hold(self, resident: Floats) -> None:
        """What the LRU window says of its data sets."""
        np.copyto(self.resident, resident, where=self._lru)

    def begin_epoch(self, jobs: Ints, datasets: Ints) -> None:
        self.effective[jobs] = self.resident[datasets] / self.sizes[datasets]

    def advance(
        self, jobs: Ints, datasets: Ints, fetched: Floats, shared: bool, paused: Ints, datasets_of_paused: Ints
    ) -> None:
        """Each of `jobs` has fetched so many bytes from the store; of a cooperative data set its part of the common."""
        mode = self.mode[datasets]
        if not shared and (mode == LRU).all():
            return  # that is what `hold` says
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
