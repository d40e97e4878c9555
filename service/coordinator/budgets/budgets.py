"""The budgets of all jobs: who has one, what is charged to whom, who lends to whom. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from tfquiver.clock import Clock
from tfquiver.service.coordinator.budgets.bucket import Bucket
from tfquiver.service.coordinator.budgets.lending import effective_rates, wanted
from tfquiver.service.coordinator.budgets.pins import Pins, Record

_LEAST_BYTES_PER_S = 1.0
_LEAST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0  # not for each shard; and it may have another rate by then
_MARKED_S = 60.0  # a shard that was leased to be loaded is loaded by then, or was not
_CHANGE_TOLD = 0.02  # nodes hear of rates that differ by more


class Budgets:
    """Jobs without an allocation read as they can, and neither lend nor borrow.

    Lending is among those who read now: `tick` says who does. A job that had lent gets its own back at once when it
    has to wait.
    """

    def __init__(self, clock: Clock, journal: Callable[[Record], None] = lambda _: None) -> None:
        """`journal`: is given each pin; the caller makes it durable."""
        self._clock, self.pins = clock, Pins(journal, self._allocate)
        self._planned: Mapping[str, float] = {}
        self.allocated: dict[str, float] = {}  # bytes/s by job: pins, and what a policy has planned for others
        self._buckets: dict[str, Bucket] = {}
        self._used_bytes: dict[str, float] = {}  # since the last tick, and so is _held_back
        self._held_back: set[str] = set()
        self._wants: dict[str, float] = {}  # of those who read
        self._ticked_s = clock.now()
        self._jobs_of: dict[bytes, frozenset[str]] = {}  # who reads each data set
        self._marked: dict[bytes, dict[int, float]] = {}  # leased to be loaded, and charged; when
        self._told: dict[bytes, float] = {}  # what nodes were told of each data set
        self.used_bytes_per_s: dict[str, float] = {}  # as of the last tick
        self.orders = 0  # grows when nodes are to be told another rate

    @property
    def in_use(self) -> bool:
        """Whether any job has an allocation."""
        return bool(self.allocated)

    # Allocations.

    def restored(self) -> None:
        """Pins have been read from the log."""
        self._allocate()

    def plan(self, bytes_per_s: Mapping[str, float]) -> None:
        """What a policy allocates, instead of all that one did before. Pins stay. Nothing of it is journaled."""
        self._planned = dict(bytes_per_s)
        self._allocate()

    def effective(self, job: str) -> float:
        """Of one that has an allocation: with what it is lent, or without what it lends."""
        return self._buckets[job].bytes_per_s

    # Leases.

    def left_bytes(self, job: str) -> float | None:
        """How many bytes of missing shards the job may be given now, the last shard being allowed to go beyond it.
        At most 0: none. None: any."""
        bucket = self._buckets.get(job)
        return bucket.left_bytes(self._clock.now()) if bucket else None

    def held_back(self, job: str) -> None:
        """It was given less than it asked for. A lender has its own back now."""
        if job in self._held_back:
            return
        self._held_back.add(job)
        if job in self._wants and self._buckets[job].bytes_per_s < self.allocated[job]:
            self._wants[job] = self.allocated[job]
            self._lend()

    def pause_s(self, job: str) -> float | None:
        """When one that was given nothing is to ask again; None: it is not for its budget that it was not."""
        bucket, now = self._buckets.get(job), self._clock.now()
        if bucket is None or bucket.left_bytes(now) > _LEAST_PAUSE_S * bucket.bytes_per_s:
            return None  # a little may have come in since
        return min(max(bucket.pause_s(now), _LEAST_PAUSE_S), _LONGEST_PAUSE_S)

    def leased(self, job: str, size_bytes: int) -> None:
        """Missing shards that are fetched for this job alone, and kept for nobody."""
        self._take(job, size_bytes)

    def leased_for_all(self, job: str, digest_id: bytes, shards: Sequence[int], lengths: Sequence[int]) -> None:
        """Missing shards that become resident for all jobs of a data set, who pay together; each is paid once.

        Args:
          lengths: bytes of each of `shards`.
        """
        marked, now = self._marked.setdefault(digest_id, {}), self._clock.now()
        size_bytes = 0
        for shard, length in zip(shards, lengths, strict=True):
            if shard not in marked:
                marked[shard] = now
                size_bytes += length
        self._share(self._jobs_of.get(digest_id, frozenset()) | {job}, size_bytes, Bucket.take)

    def resident(self, digest_id: bytes, shards: Sequence[int], lengths: Sequence[int]) -> None:
        """Nodes have loaded these. Who leased them has paid for them; the others were loaded ahead, for all."""
        marked = self._marked.get(digest_id, {})
        size_bytes = sum(
            length for shard, length in zip(shards, lengths, strict=True) if marked.pop(shard, None) is None
        )
        self._share(self._jobs_of.get(digest_id, frozenset()), size_bytes, Bucket.share)

    # Time.

    def tick(self, jobs_of: Mapping[bytes, frozenset[str]], loading: Collection[bytes]) -> None:
        """Time has passed. Call it every second or so.

        Args:
          jobs_of: who reads each data set.
          loading: data sets that nodes load ahead of readers.
        """
        now = self._clock.now()
        self._jobs_of = dict(jobs_of)
        for digest_id, marked in list(self._marked.items()):
            self._marked[digest_id] = {shard: at_s for shard, at_s in marked.items() if now < at_s + _MARKED_S}
            if not self._marked[digest_id]:
                del self._marked[digest_id]
        passed_s = now - self._ticked_s
        if passed_s > 0:
            reading = frozenset().union(*jobs_of.values())
            self.used_bytes_per_s = {job: self._used_bytes.get(job, 0.0) / passed_s for job in self.allocated}
            self._wants = {
                job: wanted(rate, self.used_bytes_per_s[job], job in self._held_back)
                for job, rate in self.allocated.items()
                if job in reading
            }
            self._used_bytes, self._held_back, self._ticked_s = {}, set(), now
        self._lend()
        parts = Counter(job for jobs in jobs_of.values() for job in jobs)
        told = {digest_id: self._rate_of(jobs_of.get(digest_id, frozenset()), parts) for digest_id in loading}
        if told.keys() != self._told.keys() or any(_differ(rate, self._told[key]) for key, rate in told.items()):
            self._told = told
            self.orders += 1

    def told(self, digest_id: bytes) -> float:
        """Bytes/s at which all nodes together load a data set ahead of its readers; 0: as fast as they can."""
        return self._told.get(digest_id, 0.0)

    # Inside.

    def _allocate(self) -> None:
        rates = {**self._planned, **self.pins.bytes_per_s}
        self.allocated = {job: max(rate, _LEAST_BYTES_PER_S) for job, rate in rates.items()}
        now = self._clock.now()
        self._buckets = {
            job: self._buckets.get(job) or Bucket(rate, now) for job, rate in self.allocated.items()
        }  # fmt: skip
        self._wants = {job: want for job, want in self._wants.items() if job in self.allocated}
        self._held_back &= self.allocated.keys()
        self._lend()
        if self._told and not self.allocated:  # nobody calls `tick` any more
            self._told = {}
            self.orders += 1

    def _lend(self) -> None:
        among = {job: self.allocated[job] for job in self._wants}
        rates = {**self.allocated, **effective_rates(among, self._wants)}
        now = self._clock.now()
        for job, bucket in self._buckets.items():
            if bucket.bytes_per_s != rates[job]:
                bucket.refill_at(rates[job], now)

    def _take(self, job: str, size_bytes: float) -> None:
        if size_bytes and job in self._buckets:
            self._used_bytes[job] = self._used_bytes.get(job, 0.0) + size_bytes
            self._buckets[job].take(size_bytes, self._clock.now())

    def _share(self, jobs: frozenset[str], size_bytes: float, charge: Callable[[Bucket, float, float], None]) -> None:
        """In proportion to their rates: in equal parts one with a small rate would never be out of debt, and what it
        cannot pay would come on top of what the others may read. Those without a rate take a head's part each."""
        limited = [job for job in jobs if job in self._buckets]
        if not size_bytes or not limited:
            return
        now = self._clock.now()
        together = sum(self._buckets[job].bytes_per_s for job in limited)
        for job in limited:
            bucket = self._buckets[job]
            part = size_bytes * len(limited) / len(jobs) * bucket.bytes_per_s / together
            self._used_bytes[job] = self._used_bytes.get(job, 0.0) + part
            charge(bucket, part, now)

    def _rate_of(self, jobs: frozenset[str], parts: Mapping[str, int]) -> float:
        """What jobs may read together of one data set; `parts`: of how many data sets each of them does."""
        if not jobs or not jobs <= self._buckets.keys():
            return 0.0
        return sum(self._buckets[job].bytes_per_s / parts[job] for job in jobs)


def _differ(rate: float, before: float) -> bool:
    return bool(rate) != bool(before) or abs(rate - before) > _CHANGE_TOLD * before
