"""The budgets of all jobs: who has one, what is charged to whom, who lends to whom. Pure."""

from __future__ import annotations

import itertools
import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tfquiver.clock import Clock
from tfquiver.service.coordinator.bandwidth_budgets.bucket import Bucket
from tfquiver.service.coordinator.bandwidth_budgets.lending import effective_rates, wanted
from tfquiver.service.coordinator.bandwidth_budgets.pins import Pins, Record
from tfquiver.service.coordinator.bandwidth_budgets.shared_costs import SharedCosts

_LEAST_BYTES_PER_S = 1.0
_LEAST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0  # not for each shard; and it may have another rate by then
# So often at most is shared anew what lenders took back, for each thousand jobs: of these it takes half a millisecond.
_LEND_S = 0.05
_MARKED_S = 60.0  # a shard that was leased to be loaded is loaded by then, or was not
_AT_A_TIME = 256  # jobs
_CHANGE_TOLD = 0.02  # nodes hear of rates that differ by more


class Budgets:
    """Jobs without an allocation read as they can, and neither lend nor borrow.

    Lending is among those who read now: `tick` says who does. A job that had lent gets its own back at once when it
    has to wait.
    """

    def __init__(self, clock: Clock, journal: Callable[[Record], None] = lambda _: None) -> None:
        """`journal`: is given each pin; the caller makes it durable."""
        self._clock, self.pins = clock, Pins(journal, self._pinned)
        self._planned: Mapping[str, float] = {}
        self._allocated: dict[str, float] = {}  # bytes/s by job: pins, and what a policy has planned for others
        self._outdated = False  # pins are others since then
        self._buckets: dict[str, Bucket] = {}
        self._used_bytes: dict[str, float] = {}  # since the last tick, and so is _held_back
        self._held_back: set[str] = set()
        self._wants: dict[str, float] = {}  # of those who read
        self._ticked_s = self._lent_s = clock.now()
        self._took_back = False  # some lender did, since then
        self._lendings = 0  # grows with every look at who lends what, and with what makes the last one outdated
        self._jobs_of: dict[bytes, frozenset[str]] = {}  # who reads each data set
        self._parts = Counter[str]()  # of how many data sets each job reads
        # By data set; made when needed, until who reads, or has a rate, differs.
        self._shared: dict[bytes, SharedCosts] = {}
        self._shared_by: dict[str, list[SharedCosts]] = {}  # by job
        self._marked: dict[bytes, dict[int, float]] = {}  # leased to be loaded, and charged; when
        self._told: dict[bytes, float] = {}  # what nodes were told of each data set
        self.used_bytes_per_s: dict[str, float] = {}  # as of the last tick
        self.orders = 0  # grows when nodes are to be told another rate

    @property
    def in_use(self) -> bool:
        """Whether any job has an allocation."""
        return bool(self.allocated)

    @property
    def allocated(self) -> Mapping[str, float]:
        """Bytes/s by job: pins, and what a policy has planned for others."""
        self._settle()
        return self._allocated

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
        self._settle()
        return self._buckets[job].bytes_per_s

    # Leases.

    def left_bytes(self, job: str) -> float | None:
        """How many bytes of missing shards the job may be given now, the last shard being allowed to go beyond it.
        At most 0: none. None: any."""
        self._settle()
        now = self._clock.now()
        if self._took_back and now >= self._lent_s + self._lend_s:
            self._lend()
        bucket = self._charged(job, now)
        return bucket.left_bytes(now) if bucket else None

    def held_back(self, job: str) -> None:
        """It was given less than it asked for. A lender has its own back now."""
        self._settle()
        if job in self._held_back:
            return
        self._held_back.add(job)
        if job in self._wants and self._buckets[job].bytes_per_s < self.allocated[job]:
            now = self._clock.now()
            self._wants[job], self._took_back = self.allocated[job], True
            self._refill(job, self.allocated[job], now)
            if now >= self._lent_s + self._lend_s:
                self._lend()

    def pause_s(self, job: str) -> float | None:
        """When one that was given nothing is to ask again; None: it is not for its budget that it was not."""
        self._settle()
        now = self._clock.now()
        bucket = self._charged(job, now)
        if bucket is None or bucket.left_bytes(now) > _LEAST_PAUSE_S * bucket.bytes_per_s:
            return None  # a little may have come in since
        return min(max(bucket.pause_s(now), _LEAST_PAUSE_S), _LONGEST_PAUSE_S)

    def leased(self, job: str, size_bytes: int) -> None:
        """Missing shards that are fetched for this job alone, and kept for nobody."""
        self._settle()
        now = self._clock.now()
        if size_bytes and (bucket := self._charged(job, now)):
            self._used_bytes[job] = self._used_bytes.get(job, 0.0) + size_bytes
            bucket.take(size_bytes, now)

    def leased_for_all(self, job: str, digest_id: bytes, shards: Sequence[int], lengths: Sequence[int]) -> None:
        """Missing shards that become resident for all jobs of a data set, who pay together; each is paid once.

        Args:
          lengths: bytes of each of `shards`.
        """
        self._settle()
        marked, now = self._marked.setdefault(digest_id, {}), self._clock.now()
        size_bytes = 0
        for shard, length in zip(shards, lengths, strict=True):
            if shard not in marked:
                marked[shard] = now
                size_bytes += length
        if size_bytes:
            self._shared_of(digest_id, job).leased(size_bytes)

    def resident(self, digest_id: bytes, shards: Sequence[int], lengths: Sequence[int]) -> None:
        """Nodes have loaded these. Who leased them has paid for them; the others were loaded ahead, for all."""
        self._settle()
        marked = self._marked.get(digest_id, {})
        size_bytes = sum(
            length for shard, length in zip(shards, lengths, strict=True) if marked.pop(shard, None) is None
        )
        if size_bytes:
            self._shared_of(digest_id).loaded(size_bytes)

    # Time.

    def tick(self, jobs_of: Mapping[bytes, frozenset[str]], loading: Collection[bytes]) -> None:
        """Time has passed. Call it, or `ticking`, every second or so.

        Args:
          jobs_of: who reads each data set.
          loading: data sets that nodes load ahead of readers.
        """
        deque(self.ticking(jobs_of, loading), maxlen=0)

    def ticking(self, jobs_of: Mapping[bytes, frozenset[str]], loading: Collection[bytes]) -> Iterator[None]:
        """As `tick`, some jobs at a time: others may be served between. To its end, and one after the other."""
        self._settle()
        for digest_id, shared in list(self._shared.items()):
            if digest_id not in jobs_of or not shared.is_of(jobs_of[digest_id]):
                self._charge_no_more(digest_id, shared)
        self._jobs_of = dict(jobs_of)
        self._parts = Counter(itertools.chain.from_iterable(jobs_of.values()))
        now = self._clock.now()
        for digest_id, marked in list(self._marked.items()):
            # Oldest first: all of them need not be looked at.
            old = list(itertools.takewhile(lambda item: now >= item[1] + _MARKED_S, marked.items()))
            for shard, _ in old:
                del marked[shard]
            if not marked:
                del self._marked[digest_id]
        for at, job in enumerate(list(self._shared_by), 1):
            self._charged(job, self._clock.now())
            if at % _AT_A_TIME == 0:
                yield
        if (passed_s := self._clock.now() - self._ticked_s) > 0:
            yield from self._measure(passed_s)
        yield from self._lending()
        told = {digest_id: self._rate_of(digest_id) for digest_id in loading}
        if told.keys() != self._told.keys() or any(_differ(rate, self._told[key]) for key, rate in told.items()):
            self._told = told
            self.orders += 1

    def opened(self, digest_id: bytes, job: str) -> None:
        """Somebody begins to read a data set that nodes load ahead: until the next tick they would load it for him
        as fast as they can, or as slowly as the others may read."""
        self._settle()
        jobs = self._jobs_of.get(digest_id, frozenset())
        if job in jobs and digest_id in self._told:
            return
        self._jobs_of[digest_id] = jobs | {job}
        self._parts[job] += job not in jobs
        self._shared_of(digest_id, job)  # what is loaded faster for him is not for the others to pay
        for other in self._told.keys() | {digest_id}:
            if job in self._jobs_of.get(other, ()):
                rate, before = self._rate_of(other), self.told(other)
                self._told[other] = rate
                self.orders += _differ(rate, before)

    def told(self, digest_id: bytes) -> float:
        """Bytes/s at which all nodes together load a data set ahead of its readers; 0: as fast as they can."""
        self._settle()
        return self._told.get(digest_id, 0.0)

    # Inside.

    def _measure(self, passed_s: float) -> Iterator[None]:
        """What each job has used, and wants; of what comes meanwhile the next time tells."""
        used, held_back = self._used_bytes, self._held_back
        self._used_bytes, self._held_back, self._ticked_s = {}, set(), self._clock.now()
        used_per_s, wants = dict[str, float](), dict[str, float]()
        for at, (job, rate) in enumerate(list(self.allocated.items()), 1):
            used_per_s[job] = used.get(job, 0.0) / passed_s
            if job in self._parts:
                wants[job] = wanted(rate, used_per_s[job], job in held_back)
            if at % _AT_A_TIME == 0:
                yield
        self._settle()
        wants |= dict.fromkeys(self._held_back & wants.keys(), math.inf)
        self.used_bytes_per_s = used_per_s
        self._wants = {job: want for job, want in wants.items() if job in self._allocated}

    def _pinned(self, job: str, bytes_per_s: float) -> None:
        """What comes of it for all is worked out when it is asked for: a scheduler pins a thousand jobs one after the
        other. Of what has ended at once: who has a limit again later begins anew."""
        rate = bytes_per_s or self._planned.get(job)
        if self._outdated or (bytes_per_s and job not in self._buckets and self._pays_a_head(job)):
            self._outdated = True
            if not bytes_per_s:
                self._settle()
        elif rate is not None:
            self._pin(job, max(rate, _LEAST_BYTES_PER_S))
        elif len(self._buckets) > 1:
            self._unpin(job)
        else:  # nothing is left to be worked out after the last one
            self._allocate()

    def _unpin(self, job: str) -> None:
        """As `_pin`. Where it pays with others, it takes a head's part from now on."""
        if job not in self._buckets:
            return
        if job in self._shared_by:
            self._charged(job, self._clock.now())
        del self._allocated[job], self._buckets[job]
        for shared in self._shared_by.pop(job, ()):
            shared.unlimited(job, [self._buckets[other].bytes_per_s for other in shared.limited if other != job])
        self._used_bytes.pop(job, None)
        self._held_back.discard(job)
        self._took_back = self._wants.pop(job, None) is not None or self._took_back
        self._lendings += 1

    def _pays_a_head(self, job: str) -> bool:
        """Without a rate: with one, what all pay of a data set is another part for each."""
        return any(job in shared for shared in self._shared.values())

    def _pin(self, job: str, rate: float) -> None:
        """At once, of it alone: with leases between, all anew for each of a thousand that are pinned took the loop 5 ms
        each. What others lend it, or it them, follows when somebody looks, `_LEND_S` later at most."""
        now = self._clock.now()
        if not self._allocated:  # nobody has called `tick` until now
            self._ticked_s = now
        self._allocated[job] = rate
        if job in self._buckets:
            self._refill(job, rate, now)
        else:
            self._buckets[job] = Bucket(rate, now)
        self._took_back = self._took_back or job in self._wants
        self._lendings += 1

    def _settle(self) -> None:
        if self._outdated:
            self._allocate()

    def _allocate(self) -> None:
        self._outdated = False
        now = self._clock.now()
        self._charge_all(now)
        if not self._allocated:  # nobody has called `tick` until now
            self._ticked_s = now
        rates = {**self._planned, **self.pins.bytes_per_s}
        self._allocated = {job: max(rate, _LEAST_BYTES_PER_S) for job, rate in rates.items()}
        self._used_bytes = {job: used for job, used in self._used_bytes.items() if job in self._allocated}
        self._buckets = {
            job: self._buckets.get(job) or Bucket(rate, now) for job, rate in self._allocated.items()
        }  # fmt: skip
        self._wants = {job: want for job, want in self._wants.items() if job in self._allocated}
        self._held_back &= self._allocated.keys()
        self._lend()
        if not self._allocated:  # nobody calls `tick` any more
            self.orders += bool(self._told)
            self._told, self._jobs_of, self._parts, self._marked = {}, {}, Counter(), {}

    @property
    def _lend_s(self) -> float:
        return _LEND_S * max(1.0, len(self._buckets) / 1000)

    def _lend(self) -> None:
        deque(self._lending(), maxlen=0)

    def _lending(self) -> Iterator[None]:
        """Who takes its own back meanwhile is seen the next time; where others have a rate by then it is not gone on
        with."""
        self._lendings += 1
        this = self._lendings
        among = {job: self._allocated[job] for job in self._wants}
        rates = {**self._allocated, **effective_rates(among, self._wants)}
        self._lent_s, self._took_back = self._clock.now(), False
        for at, (job, rate) in enumerate(rates.items(), 1):
            if job in self._buckets:
                self._refill(job, rate, self._clock.now())
            if at % _AT_A_TIME == 0:
                yield
                if this != self._lendings:
                    return

    def _refill(self, job: str, rate: float, now: float) -> None:
        if (more := rate - self._buckets[job].bytes_per_s) and (bucket := self._charged(job, now)):
            bucket.refill_at(rate, now)
            for shared in self._shared_by.get(job, ()):
                shared.changed(more, rate)

    def _shared_of(self, digest_id: bytes, job: str = "") -> SharedCosts:
        """`job`: one that reads it, though nobody may have said so yet."""
        shared = self._shared.get(digest_id)
        if shared is None:
            jobs = self._jobs_of.get(digest_id, frozenset())
            rates = {one: self._buckets[one].bytes_per_s for one in jobs if one in self._buckets}
            shared = self._shared[digest_id] = SharedCosts(jobs, rates)
            for limited in shared.limited:
                self._shared_by.setdefault(limited, []).append(shared)
        if job and job not in shared:
            bucket = self._buckets.get(job)
            shared.join(job, bucket.bytes_per_s if bucket else None)
            if bucket:
                self._shared_by.setdefault(job, []).append(shared)
        return shared

    def _charged(self, job: str, now: float) -> Bucket | None:
        """Its bucket, with all that it shares in taken from it."""
        bucket = self._buckets.get(job)
        if bucket is None:
            return None
        owed = [shared.charge(job, bucket.bytes_per_s) for shared in self._shared_by.get(job, ())]
        leased_bytes, loaded_bytes = (sum(its) for its in zip((0.0, 0.0), *owed, strict=True))
        if leased_bytes or loaded_bytes:
            self._used_bytes[job] = self._used_bytes.get(job, 0.0) + leased_bytes + loaded_bytes
            # Of all together: after the first nothing would be left of the time in which the others were read.
            bucket.share(leased_bytes, loaded_bytes, now)
        return bucket

    def _charge_all(self, now: float) -> None:
        """Before who pays for what may change."""
        for job in self._shared_by:
            self._charged(job, now)
        self._shared, self._shared_by = {}, {}

    def _charge_no_more(self, digest_id: bytes, shared: SharedCosts) -> None:
        """Before who pays for one data set is another one."""
        now = self._clock.now()
        for job in shared.limited:
            self._charged(job, now)
            its = self._shared_by[job]
            its.remove(shared)
            if not its:
                del self._shared_by[job]
        del self._shared[digest_id]

    def _rate_of(self, digest_id: bytes) -> float:
        """What the jobs of one data set may read together; between two epochs, when nobody does, as before."""
        jobs = self._jobs_of.get(digest_id, frozenset())
        if not jobs:
            return self.told(digest_id)
        if not jobs <= self._buckets.keys():
            return 0.0
        return sum(self._buckets[job].bytes_per_s / self._parts[job] for job in jobs)


def _differ(rate: float, before: float) -> bool:
    return bool(rate) != bool(before) or abs(rate - before) > _CHANGE_TOLD * before
