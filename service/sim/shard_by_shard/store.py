"""The object store of a simulation: one pipe of so many bytes a second, and what has gone through it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from tfquiver.service.sim.shard_by_shard.engine import Engine


class Store:
    """Fetches one shard at a time; what a job waits for goes before what is loaded ahead. Requests for one join."""

    def __init__(self, engine: Engine, lengths: list[int], bytes_per_s: float, arrived: Callable[[int], None]) -> None:
        self._engine, self._lengths, self._bytes_per_s, self._arrived = engine, lengths, bytes_per_s, arrived
        self._waiting: dict[int, list[Callable[[], None]]] = {}
        self._demanded: deque[int] = deque()
        self._ahead: dict[int, None] = {}
        self._under_way: int | None = None
        self.fetched_bytes = 0

    def demand(self, shard: int, then: Callable[[], None]) -> None:
        joined = shard in self._waiting or shard == self._under_way
        self._waiting.setdefault(shard, []).append(then)
        if not joined:
            self._ahead.pop(shard, None)
            self._demanded.append(shard)
            self._go_on()

    def load_ahead(self, shards: Iterable[int]) -> None:
        """In place of what was to be loaded ahead before."""
        self._ahead = dict.fromkeys(s for s in shards if s != self._under_way and s not in self._waiting)
        self._go_on()

    def _go_on(self) -> None:
        if self._under_way is not None:
            return
        if self._demanded:
            self._under_way = self._demanded.popleft()
        elif self._ahead:
            self._under_way = next(iter(self._ahead))
            del self._ahead[self._under_way]
        else:
            return
        self._engine.after(self._lengths[self._under_way] / self._bytes_per_s, self._arrive)

    def _arrive(self) -> None:
        shard, self._under_way = self._under_way, None
        assert shard is not None
        self.fetched_bytes += self._lengths[shard]
        waiting = self._waiting.pop(shard, [])
        self._arrived(shard)
        for then in waiting:
            then()
        self._go_on()
