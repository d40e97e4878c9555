"""What a change of plan does to the data that is there, and how much of it may move in an hour. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tfquiver.service.coordinator.policies.pins import free, free_bytes, pinned, two_chunks_bytes
from tfquiver.service.coordinator.policies.views_and_plans.interface import Allocation, ClusterView

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Move:
    """Bytes; `evicted_bytes` are of data that jobs read now, `stays` is what both plans keep."""

    evicted_bytes: int
    loaded_bytes: int
    stays: Mapping[str, Allocation]


def move(view: ClusterView, old: Mapping[str, Allocation], new: Mapping[str, Allocation]) -> Move:
    read, loaded_bytes = {job.dataset for job in view.jobs}, 0
    stays: dict[str, Allocation] = {}
    for dataset in view.datasets:
        had, gets = old.get(dataset.name, Allocation()), new.get(dataset.name, Allocation())
        there_bytes = min(dataset.resident_bytes, had.cache_bytes)
        if dataset.name in read:
            loaded_bytes += max(0, gets.cache_bytes - there_bytes)
        if gets.cache_bytes:
            stays[dataset.name] = Allocation(gets.mode, min(had.cache_bytes, gets.cache_bytes))
    return Move(sum(evicted(view, old, new).values()), loaded_bytes, stays)


def evicted(view: ClusterView, old: Mapping[str, Allocation], new: Mapping[str, Allocation]) -> dict[str, int]:
    """Bytes that go of what jobs read now, by data set; none of those of which nothing does."""
    read, found = {job.dataset for job in view.jobs}, dict[str, int]()
    for dataset in view.datasets:
        if dataset.name in read:
            had, gets = old.get(dataset.name, Allocation()), new.get(dataset.name, Allocation())
            goes_bytes = min(dataset.resident_bytes, had.cache_bytes) - gets.cache_bytes
            if goes_bytes > 0:
                found[dataset.name] = goes_bytes
    return found


def carried(view: ClusterView, old: Mapping[str, Allocation]) -> dict[str, Allocation]:
    """The old allocations as far as they can still be: pins hold, who is gone has none, all have less if nodes go."""
    kept = {
        dataset.name: Allocation(old[dataset.name].mode, min(old[dataset.name].cache_bytes, dataset.size_bytes))
        for dataset in free(view)
        if dataset.name in old
    }
    taken_bytes, there_bytes = sum(one.cache_bytes for one in kept.values()), free_bytes(view)
    if taken_bytes > there_bytes:
        kept = {name: _part(one, there_bytes, taken_bytes) for name, one in kept.items()}
    two_chunks = {dataset.name: two_chunks_bytes(dataset) for dataset in free(view)}
    return pinned(view) | {name: _possible(one, two_chunks[name]) for name, one in kept.items() if one.cache_bytes}


class MoveBudget:
    """A token bucket of bytes: one cache's worth at most at a time, and `share_per_hour` of the cache again each hour.

    So in t hours no more than (1 + t share_per_hour) times the cache moves, however noisy measurements are.
    """

    def __init__(self, share_per_hour: float) -> None:
        self._share_per_hour = share_per_hour
        self._spent_share = 0.0
        self._at_s: float | None = None

    def take(self, amount_bytes: int, cache_bytes: int, now: float) -> bool:
        """Whether so many bytes may move now; if so they are counted."""
        self._refill(now)
        share = amount_bytes / max(1, cache_bytes)
        if amount_bytes and self._spent_share + share > 1:
            return False
        self._spent_share += share
        return True

    def restore(self, moved: Iterable[tuple[float, int]], cache_bytes: int, now: float) -> None:
        """What others have taken before: when, and how many bytes. To be called first. A cache that was larger then had
        room for more."""
        for at_s, amount_bytes in sorted(moved):
            self._refill(min(at_s, now))  # clocks are set
            self._spent_share = min(1.0, self._spent_share + amount_bytes / max(1, cache_bytes))

    def _refill(self, now: float) -> None:
        elapsed_s = 0.0 if self._at_s is None else max(0.0, now - self._at_s)
        self._at_s = now
        self._spent_share = max(0.0, self._spent_share - elapsed_s / HOUR_S * self._share_per_hour)


def _part(allocation: Allocation, there_bytes: int, taken_bytes: int) -> Allocation:
    return Allocation(allocation.mode, allocation.cache_bytes * there_bytes // taken_bytes)


def _possible(allocation: Allocation, two_chunks_bytes: int) -> Allocation:
    if allocation.mode == "cooperative" and allocation.cache_bytes < two_chunks_bytes:
        return Allocation("uniform", allocation.cache_bytes)
    return allocation
