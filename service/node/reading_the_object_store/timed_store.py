"""A store whose reads are timed: what misses cost."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tfquiver.clock import Clock, SystemClock
from tfquiver.service.node.counters.read_times import ReadTimes, StoreReads
from tfquiver.stores import ObjectStore
from tfquiver.stores.object_store import AroundStore, Parts


class Stopwatch:
    """Thread-safe; one for all stores of a node."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._times = ReadTimes(self._clock.now())
        self._lock = threading.Lock()

    def begin(self) -> int:
        with self._lock:
            return self._times.begin(self._clock.now())

    def end(self, read: int, size_bytes: int) -> None:
        with self._lock:
            self._times.end(read, size_bytes, self._clock.now())

    def reads(self) -> StoreReads:
        with self._lock:
            return self._times.at(self._clock.now())


class TimedStore(AroundStore):
    """Retries, and their pauses, are part of a read: a miss waits for them, too."""

    def __init__(self, store: ObjectStore, watch: Stopwatch) -> None:
        super().__init__(store)
        self._watch = watch

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        read, size_bytes = self._watch.begin(), 0
        try:
            data = self._store.read(uri, offset, length, generation, deadline_s)
            size_bytes = len(data)
            return data
        finally:
            self._watch.end(read, size_bytes)

    def read_parts(self, parts: Parts, deadline_s: float, take: Callable[[bytes], None]) -> None:
        read, size_bytes = self._watch.begin(), 0

        def counted(part: bytes) -> None:
            nonlocal size_bytes
            size_bytes += len(part)
            take(part)

        try:
            self._store.read_parts(parts, deadline_s, counted)
        finally:
            self._watch.end(read, size_bytes)
