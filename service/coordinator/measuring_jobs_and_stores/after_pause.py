"""What is read after a pause between two epochs: as far as it fills buffers again, the pause is the time it took. Pure.

A worker of tf.data service, and whatever prefetches behind a reader, reads an epoch to its end ahead of its trainer;
until the trainer comes to that end nobody reads, and that time is nobody's (`JobMeter`). What was taken from buffers
then fills them at the beginning of the next epoch, as fast as the cache or the store gives it, and would make a job
seem faster than its trainer is: in a model of a job that computes, with 4 MB of 27 behind its reader, a probe found a
benefit from 0.6 to 1.3 where there is none.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import LEAST_STALL_SHARE, Counters

MOST_PAUSE_S = 30.0  # of longer ones so much: a trainer that was busy elsewhere had emptied its buffers before
MOST_FILLING_S = 30.0
AFTERWARDS_S = 3.0  # so long a job is looked at when its buffers are full
_STRETCH_S = 1.0  # what is judged: several readers report one after the other, each at first that it has nothing yet
_LEAST_FASTER = 1.2  # than before the pause, or nothing is being filled


class AfterPause:
    """Keeps back what is read after a pause until it is known how much of it was filling, and counts that as read at
    the rate of afterwards: longer by what it would then have taken, and by no more than the pause."""

    def __init__(self) -> None:
        self._pause_s = self._before = self._fastest = 0.0  # rates in bytes/s
        self._stretch, self._filling, self._afterwards = Counters(), Counters(), Counters()

    @property
    def kept_back(self) -> Counters:
        return self._filling.plus(self._afterwards).plus(self._stretch)

    @property
    def kept_back_bytes(self) -> int:
        return self._filling.size_bytes + self._afterwards.size_bytes + self._stretch.size_bytes

    def begin(self, pause_s: float, bytes_per_s: float) -> Counters:
        """Nobody has read for so long, and before that as much a second. What was kept back until now."""
        left = self._settle()
        if 0.0 < pause_s < inf and bytes_per_s > 0.0:
            self._pause_s, self._before, self._fastest = min(pause_s, MOST_PAUSE_S), bytes_per_s, 0.0
        return left

    def shorten(self, by_s: float) -> None:
        """The reader that ended the pause had begun so much earlier than it seemed."""
        if self._pause_s:
            self._pause_s = max(self._pause_s - by_s, 1e-9)  # what is kept back is still to be settled

    def read(self, delta: Counters) -> Counters:
        """What is to be counted now."""
        if not self._pause_s:
            return delta
        self._stretch = stretch = self._stretch.plus(delta)
        if stretch.elapsed_s < (_STRETCH_S if stretch.size_bytes or self._filling.size_bytes else MOST_FILLING_S):
            return Counters()
        self._stretch = Counters()
        if not self._afterwards.elapsed_s and self._fills(stretch):
            self._filling = self._filling.plus(stretch)
            return self._settle() if self._filling.elapsed_s >= MOST_FILLING_S else Counters()
        self._afterwards = self._afterwards.plus(stretch)
        nothing = not self._filling.size_bytes
        return self._settle() if nothing or self._afterwards.elapsed_s >= AFTERWARDS_S else Counters()

    def _fills(self, stretch: Counters) -> bool:
        """Until the rate is nearer to that of before than to the fastest: whoever stays fast has become faster."""
        self._fastest = max(self._fastest, stretch.bytes_per_s)
        faster = self._fastest >= _LEAST_FASTER * self._before
        return faster and stretch.bytes_per_s > (self._fastest + self._before) / 2

    def _settle(self) -> Counters:
        filling, afterwards, pause_s = self._filling, self._afterwards, self._pause_s
        both = self.kept_back
        self._pause_s, self._stretch, self._filling, self._afterwards = 0.0, Counters(), Counters(), Counters()
        more_s = 0.0
        # Who waits for data afterwards has no full buffers: what was resident came first.
        if afterwards.size_bytes and afterwards.stall_share < LEAST_STALL_SHARE:
            more_s = filling.size_bytes / afterwards.bytes_per_s - filling.elapsed_s
        more_s = min(max(more_s, 0.0), pause_s)
        readers = both.reader_s / both.elapsed_s if both.elapsed_s else 1.0
        return replace(both, elapsed_s=both.elapsed_s + more_s, reader_s=both.reader_s + more_s * readers)
