"""Whether the object store is another one than it was, or is only asked for more, or less, at once. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tfquiver.service.coordinator.measuring_jobs_and_stores.store_load import StoreLoad

_MOST_BAND = 24


@dataclass(frozen=True, slots=True)
class _Times:
    """Of a byte: of the time in which somebody read, and of the time of requests, those at the same time each."""

    busy_s: float
    request_s: float

    def is_another(self, before: _Times, factor: float) -> bool:
        """By `factor` slower, or faster, for certain: by both times.

        Of a store that stays as it is the first one falls, or stays, when more is asked for at once (it gives more
        together), and the second one rises, or stays (each waits for the others). So where both have risen, it is the
        store, whatever is asked for at once now; and where both have fallen.
        """
        ratios = self.busy_s / before.busy_s, self.request_s / before.request_s
        return min(ratios) >= factor or max(ratios) <= 1 / factor

    @property
    def band(self) -> int:
        """Of how much is asked for at once, in powers of two."""
        return min(max(math.floor(math.log2(self.request_s / self.busy_s)), 0), _MOST_BAND)


@dataclass(slots=True)
class StoreBefore:
    """The store as it was when a job was probed, and as it has been seen since when more, or less, was asked for."""

    _times: dict[int, _Times] = field(default_factory=dict)  # by band

    def changed(self, load: StoreLoad, factor: float) -> bool:
        """Whether it is another one now; if not, it is remembered how it is when so much is asked for at once."""
        now = _times(load)
        if now is None:
            return False
        if any(now.is_another(before, factor) for before in self._times.values()):
            return True
        self._times.setdefault(now.band, now)
        return False


def _times(load: StoreLoad) -> _Times | None:
    busy_s = load.s_per_byte
    if not busy_s:
        return None
    return _Times(busy_s, load.request_s_per_byte or busy_s)
