"""What a running cluster's jobs read, poll by poll, as a scenario that can be simulated. Pure.

A job is a name and a data set. It has begun when it is first seen to read, and has ended when it has been away for
`GONE_S`, as for the coordinator: between two epochs nobody reads. One that comes back after that is another job. What
is told may be anything: nothing of it makes a scenario that cannot be read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tfquiver.service.coordinator.measuring_jobs_and_stores.meters import GONE_S
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.sim.workloads_and_recordings.recorded import (
    MOST_ACCELERATORS,
    MOST_BYTES,
    MOST_BYTES_PER_S,
    accelerators,
    workload,
)
from tfquiver.service.sim.workloads_and_recordings.seen import Dataset, Seen, Visit
from tfquiver.service.sim.workloads_and_recordings.store_rate import StoreRate
from tfquiver.service.sim.workloads_and_recordings.trace_files import MOST_S, trace_json

WAITS = 0.5  # of its time: the store gives no more
MOST_JOBS = 100_000  # the ones that begin after so many are not recorded
_MOST_TOLD = 2 * MOST_JOBS
REPLAN_S = CoordinatorOptions().replan_s  # nobody has told it otherwise

Key = tuple[str, str]


class Recorder:
    def __init__(self) -> None:
        self._visits: list[Visit] = []
        self._open: dict[Key, Visit] = {}
        self._told: dict[Key, Seen] = {}  # of each, when it was told of last; who was told of last, last
        self._datasets: dict[str, Dataset] = {}
        self._store = StoreRate()
        self._polled_s: float | None = None
        self.full = False  # jobs that came later are left out

    @property
    def jobs(self) -> int:
        return len(self._visits)

    @property
    def silent(self) -> int:
        """Of these, those of which nobody has told that they read anything."""
        return sum(not visit.read_bytes for visit in self._visits)

    @property
    def reading(self) -> int:
        return len(self._open)

    def poll(self, now_s: float, told: Iterable[Seen], store_bytes: Mapping[str, int] | None = None) -> None:
        """
        Args:
          now_s: since the recording began, never falls.
          told: at most one of each job and data set; all that read now, or have within `GONE_S`.
          store_bytes: what each node has read from the store; None: they were not asked.
        """
        now_s = min(max(now_s, 0.0), MOST_S)
        every = {(seen.job, seen.dataset.digest): seen for seen in told}
        for key, seen in every.items():
            self._take(key, seen, now_s)
        for key, visit in list(self._open.items()):
            if now_s - visit.perhaps_s >= GONE_S:
                visit.ended_s = visit.seen_s
                del self._open[key]
        waiting = any(seen.reads and seen.stall_share >= WAITS for seen in every.values())
        self._store.add(now_s, store_bytes, waiting)
        for key, seen in every.items():
            self._told.pop(key, None)
            self._told[key] = seen
        while len(self._told) > _MOST_TOLD:
            del self._told[next(iter(self._told))]
        self._polled_s = now_s

    def scenario(self, cache_bytes: int, anonymous: bool = False) -> dict[str, Any]:
        """What `files.scenario` reads. Without `trace` while no job has read anything. `anonymous`: nobody's names."""
        visits = [visit for visit in self._visits if visit.read_bytes > 0]
        jobs = workload(visits, self._datasets, anonymous)
        made: dict[str, Any] = {
            "cluster": {"accelerators": accelerators(jobs), "cache": min(max(cache_bytes, 0), MOST_BYTES)},
            "replan_s": REPLAN_S,
            "sees": "measured",
        }
        if self._store.bytes_per_s:
            made["cluster"]["store_per_s"] = self._store.bytes_per_s
        if visits:
            made["trace"] = trace_json(jobs)
        return made

    def _take(self, key: Key, seen: Seen, now_s: float) -> None:
        visit, before = self._open.get(key), self._told.get(key)
        if visit is None:
            visit = self._begun(key, seen, before, now_s)
            if visit is None:
                return
        self._datasets[key[1]] = _known(seen.dataset, self._datasets.get(key[1]))
        read, missed = (
            _grown(getattr(seen, name), getattr(visit.last, name)) for name in ("read_bytes", "missed_bytes")
        )
        visit.read_bytes = min(visit.read_bytes + read, MOST_BYTES)
        visit.missed_bytes = min(visit.missed_bytes + missed, MOST_BYTES)
        # A coordinator that was restarted tells of everybody who was there before as if he had read just then.
        visit.forgotten = not (seen.reads or read) and (visit.forgotten or seen.read_bytes < visit.last.read_bytes)
        visit.last = seen
        visit.perhaps_s = now_s if seen.reads else max(visit.perhaps_s, now_s - max(seen.idle_s, 0.0))
        visit.seen_s = visit.seen_s if visit.forgotten else visit.perhaps_s
        visit.accelerators = max(visit.accelerators, min(seen.accelerators, MOST_ACCELERATORS))
        visit.window_bytes = max(visit.window_bytes, min(seen.window_bytes, MOST_BYTES))
        if seen.ideal_bytes_per_s is not None and 1 <= seen.ideal_bytes_per_s < MOST_BYTES_PER_S:
            visit.ideal_bytes_per_s = seen.ideal_bytes_per_s

    def _begun(self, key: Key, seen: Seen, before: Seen | None, now_s: float) -> Visit | None:
        """A job that reads, or has begun and ended since the last poll."""
        at_first = self._polled_s is None
        if at_first:
            before = seen  # of what it read before the recording began nothing is recorded
        elif before is None:
            before = replace(seen, read_bytes=0, missed_bytes=0)
        assert before is not None
        began_s = now_s
        if not seen.reads:
            if seen.read_bytes <= before.read_bytes or self._polled_s is None:
                return None
            began_s = min(self._polled_s, max(0.0, now_s - seen.idle_s))
        if len(self._visits) >= MOST_JOBS:
            self.full = True
            return None
        visit = Visit(key[0], key[1], began_s, at_first, before, began_s, began_s)
        self._visits.append(visit)
        self._open[key] = visit
        return visit


def _grown(now: int, before: int) -> int:
    """Of a counter that begins at 0 again when the coordinator does."""
    return max(now - before if now >= before else now, 0)


def _known(seen: Dataset, known: Dataset | None) -> Dataset:
    """What it takes on the disks is not told at all times."""
    return seen if known is None or seen.disk_bytes else replace(seen, disk_bytes=known.disk_bytes)
