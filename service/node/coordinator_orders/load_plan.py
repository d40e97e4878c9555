"""Which shards this node loads next, of the chunks that it was ordered to load. Pure.

Level-triggered: whoever asks says whether a shard is lacking, each time it is its turn; nothing is loaded that stands
already, nothing twice at the same time, and what failed is left alone for a while, longer every time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

PARALLEL_LOADS = 12  # of the fetcher's threads: readers have some left
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0
SWEEP_AGAIN_S = 5.0  # what went by may be lacking again, or have room now


@dataclass(frozen=True, slots=True)
class ChunkLoad:
    """One chunk to be loaded: the shards of it that are this node's, by index in the digest."""

    digest_id: bytes
    chunk: int
    shards: Sequence[int]
    urgent: bool


@dataclass(frozen=True, slots=True)
class Load:
    digest_id: bytes
    shard: int
    urgent: bool

    @property
    def key(self) -> tuple[bytes, int]:
        return self.digest_id, self.shard


@dataclass(slots=True)
class _Sweep:
    load: ChunkLoad
    at: int = 0


class LoadPlan:
    """Not thread-safe. `now` is in seconds and never falls."""

    def __init__(self, lacks: Callable[[bytes, int], bool], has_room: Callable[[bytes, int], bool]) -> None:
        """
        Args:
          lacks: whether a shard (digest id, index) is not here.
          has_room: whether it would be kept now. Its chunk waits where it would not.
        """
        self._lacks, self._has_room = lacks, has_room
        self._sweeps: dict[bytes, list[_Sweep]] = {}  # of each data set, most urgent chunk first
        self._turn = 0
        self._held_until_s: dict[bytes, float] = {}
        self._swept_s = 0.0
        self._under_way: dict[tuple[bytes, int], Load] = {}
        self._failures: dict[tuple[bytes, int], int] = {}
        self._not_before_s: dict[tuple[bytes, int], float] = {}

    def replace(self, chunks: Sequence[ChunkLoad], now: float) -> None:
        """The newest orders; what is under way goes on. What they evict may have made room: all is looked at again."""
        self._sweeps = {}
        for load in chunks:
            self._sweeps.setdefault(load.digest_id, []).append(_Sweep(load))
        ordered = {(load.digest_id, shard) for load in chunks for shard in load.shards}
        self._failures = {key: count for key, count in self._failures.items() if key in ordered}
        self._not_before_s = {key: at_s for key, at_s in self._not_before_s.items() if key in ordered}
        self._held_until_s = {key: at_s for key, at_s in self._held_until_s.items() if key in self._sweeps}
        self._swept_s = now

    def next(self, now: float, urgent: bool) -> Load | None:
        """The next urgent one, or the next other one; None: there is none now. It is under way until `ended`.

        Data sets take turns; within one the first chunk that lacks something goes first.
        """
        self._sweep_again(now)
        datasets = list(self._sweeps)
        for turn in range(len(datasets)):
            place = (self._turn + turn) % len(datasets)
            if now < self._held_until_s.get(datasets[place], now):
                continue
            for sweep in self._sweeps[datasets[place]]:
                if sweep.load.urgent is urgent and (found := self._next_of(sweep, now)):
                    self._turn = place + 1
                    self._under_way[found.key] = found
                    return found
        return None

    def hold(self, digest_id: bytes, until_s: float) -> None:
        """Nothing more of this data set until then."""
        self._held_until_s[digest_id] = until_s

    def ended(self, load: Load, now: float, failed: bool) -> None:
        """It stands now, or it could not be had."""
        del self._under_way[load.key]
        if failed:
            failures = self._failures.get(load.key, 0) + 1
            self._failures[load.key] = failures
            wait_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures - 1, 16))
            self._not_before_s[load.key] = now + wait_s
        else:
            self._failures.pop(load.key, None)

    def under_way(self, urgent: bool) -> int:
        return sum(load.urgent is urgent for load in self._under_way.values())

    def pause_s(self, now: float) -> float | None:
        """When to ask again though nothing has happened; None: not before something has."""
        if not self._sweeps:
            return None
        held_s = (until_s for until_s in self._held_until_s.values() if until_s > now)
        due_s = min([self._swept_s + SWEEP_AGAIN_S, *self._not_before_s.values(), *held_s])
        return max(0.0, due_s - now)

    def _next_of(self, sweep: _Sweep, now: float) -> Load | None:
        load = sweep.load
        while sweep.at < len(load.shards):
            shard = load.shards[sweep.at]
            key = (load.digest_id, shard)
            if key not in self._under_way and key not in self._not_before_s and self._lacks(*key):
                if not self._has_room(*key):
                    return None
                sweep.at += 1
                return Load(load.digest_id, shard, load.urgent)
            sweep.at += 1
        return None

    def _sweep_again(self, now: float) -> None:
        """From the beginning where a pause is over."""
        due = [key for key, at_s in self._not_before_s.items() if at_s <= now]
        for key in due:
            del self._not_before_s[key]
        if due or now >= self._swept_s + SWEEP_AGAIN_S:
            self._swept_s = now
            for sweeps in self._sweeps.values():
                for sweep in sweeps:
                    sweep.at = 0
