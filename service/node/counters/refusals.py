"""Shards that could not be kept: how many, since the start, and how long ago the last one was. Pure."""

from __future__ import annotations

from tfquiver.clock import Clock


class Refusals:
    """`inserts`: all of them; `by_disk`, `damaged`: of those. May be told of by any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.inserts = self.by_disk = self.damaged = 0
        self._last_s: dict[str, float] = {}

    def insert(self) -> None:
        self.inserts += 1
        self._last_s["refused_ms"] = self._clock.now()

    def disk(self) -> None:
        """It was the disk; told before `insert`."""
        self.by_disk += 1
        self._last_s["refused_by_disk_ms"] = self._clock.now()

    def from_others(self) -> None:
        """What another node sent was damaged."""
        self.insert()
        self.damaged += 1

    def ms_ago(self) -> dict[str, int]:
        """By the names of StatusReply's fields; without those that never were."""
        now_s = self._clock.now()
        return {field: int(1000 * (now_s - last_s)) for field, last_s in list(self._last_s.items())}
