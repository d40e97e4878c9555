"""One job's throughput, stall share and f*, from what its readers report. Pure.

Readers say how much they have delivered since they began; reports come late, twice, in the wrong order, from readers of
several epochs and machines, and some from liars: who seems fast is given cache. What is added up never falls, and is
bounded by the time that passed here and by what nodes say that they have handed out.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass

from tfquiver.service.coordinator.measuring_jobs_and_stores.after_pause import AfterPause
from tfquiver.service.coordinator.measuring_jobs_and_stores.counters import Counters

MOST_BYTES_PER_S = 1e12  # of one reader: more than a machine's memory gives
MOST_READERS = 4096  # of one job, that are remembered
# Every epoch has readers of its own. One that comes back after so long (its trainer was busy elsewhere) is counted from
# there.
FORGET_READER_S = 600.0
WINDOW_S = 10.0
WINDOWS = 30
# Who waits for more of its time than this does too little else to be measured by it: an error of 1 % in the waiting is
# one of a tenth in f*.
MOST_STALL_SHARE = 0.9
_LEAST_PAUSE_S = 0.1  # less is rounding
_LATE_S = 5.0  # a report may have been so long under way
_MOST_AGO_S = 60.0  # that its node says it waited, so that nobody seems to have read long before anybody was there


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reader says of itself since its first draw, and its node of what it handed to it since it connected."""

    records: int
    size_bytes: int
    waited_s: float
    elapsed_s: float
    hit_bytes: int = 0
    missed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Measured:
    """Over the newest window: `stall_share` of the readers' time went by waiting for data; `hit_share`, of the newest
    one in which it was handed anything: None: it never was.

    `ideal_bytes_per_s`: f*, what the job reads where data is never waited for: throughput / (1 - stall share). Where
    the pipeline prefetches behind the reader this is what the pipeline could do, and the trainer may do less; so the
    least of the last windows counts. None: nearly all of them were waiting.
    """

    bytes_per_s: float
    stall_share: float
    hit_share: float | None
    ideal_bytes_per_s: float | None
    records_per_s: float = 0.0  # 0: not known


@dataclass(slots=True)
class _Reader:
    """`began_at`: of its clock's zero, on ours; the earliest that any report allows, for they take their time.
    `handed_bytes`: by its nodes, and not said to be delivered yet."""

    last: Reading
    heard_at: float
    began_at: float
    handed_bytes: int = 0


class JobMeter:
    def __init__(self) -> None:
        self._settled, self._after_pause = Counters(), AfterPause()
        self.heard_at = float("-inf")
        self.reports = 0  # until another one comes, nothing here changes
        self._readers: OrderedDict[str, _Reader] = OrderedDict()
        self._covered_until = float("-inf")
        self._covered_by: _Reader | None = None  # the reader that was seen to read last
        self._window_began = Counters()
        self._windows: deque[Counters] = deque(maxlen=WINDOWS)
        self._measured: Measured | None = None  # by these windows

    @property
    def totals(self) -> Counters:
        """All that was told."""
        return self._settled.plus(self._after_pause.kept_back)

    @property
    def settled(self) -> Counters:
        """As `totals`, but what was read after a pause only when it is known what time to count for it."""
        return self._settled

    @property
    def kept_back_bytes(self) -> int:
        return self._after_pause.kept_back_bytes

    def report(self, reader_id: str, reading: Reading, now: float, ago_s: float = 0.0) -> None:
        """`now` may jump, and what is reported may be anything: what cannot be is not counted. `ago_s`: so long before
        `now` its node heard it."""
        self.heard_at, self.reports = max(now, self.heard_at), self.reports + 1
        now = self.heard_at - min(ago_s, _MOST_AGO_S)
        reader = self._readers.get(reader_id)
        if reader is None:
            # One that has been reading for longer than this has been heard of by a coordinator before this one.
            reader = self._readers[reader_id] = _Reader(Reading(0, 0, 0.0, 0.0), now - WINDOW_S, now)
        now = max(now, reader.heard_at)
        if _fell(reading, reader.last):
            return  # late: a newer one has come already
        earlier_s = max(reader.began_at - (now - reading.elapsed_s), 0.0)
        reader.began_at -= earlier_s
        if self._covered_by is reader:  # it had not come so far yet, or a part of what it reads would not count
            self._covered_until -= earlier_s
            self._after_pause.shorten(earlier_s)
        self._add(reading, reader, now - reader.heard_at)
        reader.last, reader.heard_at = reading, now
        self._readers.move_to_end(reader_id)
        while self._readers:  # who was heard of last is last
            oldest = next(iter(self._readers.values()))
            if len(self._readers) <= MOST_READERS and oldest.heard_at > now - FORGET_READER_S:
                break
            self._readers.popitem(last=False)

    def measured(self) -> Measured | None:
        """None: not for a whole window yet, and then of what there is once it is a second."""
        if self._measured:
            return self._measured
        newest = self._windows[-1] if self._windows else self._settled
        if newest.elapsed_s < 1.0:
            return None
        windows = self._windows or [newest]
        ideals = [one.bytes_per_s / (1 - one.stall_share) for one in windows if one.stall_share <= MOST_STALL_SHARE]
        ideal, records_per_s = min(ideals, default=None), newest.records / newest.elapsed_s
        # Who has much in its buffers is handed nothing for minutes: then it is of what it was handed last.
        told = (one.hit_share for one in (*reversed(self._windows), self._settled))
        hit_share = next((share for share in told if share is not None), None)
        made = Measured(newest.bytes_per_s, newest.stall_share, hit_share, ideal, records_per_s)
        self._measured = made if self._windows else None
        return made

    def delivered_bytes(self, reader_id: str) -> int:
        """As it said last; 0: it is not known."""
        reader = self._readers.get(reader_id)
        return reader.last.size_bytes if reader else 0

    def _add(self, reading: Reading, reader: _Reader, within_s: float) -> None:
        before = reader.last
        elapsed_s = reading.elapsed_s - before.elapsed_s
        again = reading.hit_bytes < before.hit_bytes or reading.missed_bytes < before.missed_bytes
        handed = (reading.hit_bytes, before.hit_bytes), (reading.missed_bytes, before.missed_bytes)
        most = int(MOST_BYTES_PER_S * (max(elapsed_s, 0.0) + _LATE_S))
        hits, misses = (min(now if again else now - then, most) for now, then in handed)
        size_bytes = min(reading.size_bytes - before.size_bytes, reader.handed_bytes + hits + misses)
        reader.handed_bytes += hits + misses - size_bytes
        if not 0.0 <= elapsed_s <= within_s + _LATE_S or not 0 <= size_bytes <= MOST_BYTES_PER_S * elapsed_s:
            return
        if size_bytes and reader.heard_at + within_s - reading.elapsed_s > reader.began_at + _LATE_S:
            return  # it has been reading for longer than it says
        # Of readers that read at the same time, each second counts once.
        until = reader.began_at + reading.elapsed_s
        if (pause_s := until - elapsed_s - self._covered_until) > _LEAST_PAUSE_S:
            self._settled = self._settled.plus(self._after_pause.begin(pause_s, self._lately.bytes_per_s))
        covered_s = max(until - max(self._covered_until, until - elapsed_s), 0.0)
        if until >= self._covered_until:
            self._covered_until, self._covered_by = until, reader
        window = self._settled.since(self._window_began)
        if window.elapsed_s >= WINDOW_S and covered_s > 0.0:  # what all of them did in it has been told
            self._windows.append(window)
            self._measured = None
            self._window_began = self._settled
        records = min(reading.records - before.records, size_bytes)
        waited_s = min(reading.waited_s - before.waited_s, elapsed_s)
        delta = Counters(records, size_bytes, waited_s, covered_s, elapsed_s, hits, misses)
        self._settled = self._settled.plus(self._after_pause.read(delta))

    @property
    def _lately(self) -> Counters:
        newest = self._settled.since(self._window_began)
        return newest.plus(self._windows[-1]) if self._windows else newest


def _fell(reading: Reading, before: Reading) -> bool:
    return (
        reading.records < before.records
        or reading.size_bytes < before.size_bytes
        or reading.waited_s < before.waited_s
        or reading.elapsed_s < before.elapsed_s
    )
