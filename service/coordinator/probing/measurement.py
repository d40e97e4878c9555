"""What a schedule of probes is told, tick by tick. Pure values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import LEAST_STALL_SHARE, Counters

DEFAULT_BATCH_RECORDS = 32  # of a job that does not say what a mini-batch is


@dataclass(frozen=True, slots=True)
class JobMeasurement:
    """One job over one data set, as known now. All counters since the job was first heard of."""

    job: str
    dataset: str
    totals: Counters
    wants_cache: bool = True
    extra_store_bytes: int = 0  # of its missed bytes, those that it missed only because it was told to miss
    kept_back_bytes: int = 0  # read, and not in `totals` yet
    buffer: Callable[[], int] = int  # bytes between the cache and the trainer at most: pool, readahead, prefetch
    batch_records: int = DEFAULT_BATCH_RECORDS
    expected_bytes: int = 0  # it reads so much in all, at least (the epoch it is in); 0: nothing is known
    ideal_bytes_per_s: float | None = None
    bytes_per_s: float | None = None  # over its newest window
    stall_share: float | None = None  # over its newest window; None: it is taken to wait
    floor_bytes_per_s: float = 0.0  # never to be slowed down below this
    # Read by chunks, of which there is hardly room for one: what it hits was loaded moments before it, at the store's
    # pace. So it is measured as it reads without a cache, and need not miss for that.
    loaded_ahead: bool = False
    reports_s: float | None = None  # from one report to the next; None: as is seen

    @property
    def buffer_bytes(self) -> int:
        """As of now. Only of those few is it added up that are probed, or could be."""
        return self.buffer()

    @property
    def starves(self) -> bool:
        return self.bytes_per_s is not None and self.bytes_per_s < self.floor_bytes_per_s and waits(self.stall_share)


def waits(stall_share: float | None) -> bool:
    """Whether it is for data that a job is no faster. One that computes reads as much as it likes."""
    return stall_share is None or stall_share >= LEAST_STALL_SHARE


@dataclass(frozen=True, slots=True)
class Order:
    """`miss`: from now on the job's lookups miss, past memory, disk and other nodes; else they are looked up as ever.

    Whoever carries it out goes back to normal by itself when the job has cost the store `most_extra_bytes` more, or
    after `for_s`: then no job misses for ever because a coordinator, or a message, was lost.
    """

    job: str
    dataset: str
    miss: bool
    most_extra_bytes: int = 0
    for_s: float = 0.0
