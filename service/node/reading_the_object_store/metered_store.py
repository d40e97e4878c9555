"""A store that counts what is read from it and keeps to a limit: the node's one way to the object stores."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tfquiver import errors
from tfquiver.clock import Clock, SystemClock
from tfquiver.service.node.rate_limits.token_bucket import TokenBucket
from tfquiver.stores import CountedStore, ObjectStore

_BURST_S = 0.25


class Meter:
    """Counts and limits the reads of all stores together. Thread-safe.

    Args:
      limit_bytes_per_s: 0: none.
    """

    def __init__(self, limit_bytes_per_s: float = 0, clock: Clock | None = None) -> None:
        self.store_bytes = 0
        self.store_requests = 0
        self._clock = clock or SystemClock()
        self._bucket = (
            TokenBucket(limit_bytes_per_s, limit_bytes_per_s * _BURST_S, self._clock.now())
            if limit_bytes_per_s
            else None
        )
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def before(self, what: str, size_bytes: int) -> None:
        """Waits for the limit; counts the request. Raises CancelledError_ after `stop`."""
        with self._lock:
            self.store_requests += 1
            pause_s = self._bucket.take(size_bytes, self._clock.now()) if self._bucket else 0.0
        if self._stopped.is_set() or (pause_s and self._stopped.wait(pause_s)):
            raise errors.CancelledError_(f"{what}: the node is stopping")

    def after(self, size_bytes: int) -> None:
        with self._lock:
            self.store_bytes += size_bytes

    def stop(self) -> None:
        """Releases every wait."""
        self._stopped.set()


class MeteredStore(CountedStore):
    """Args:
    report: told the size of every read that succeeded, in the reading thread; may raise to stop.
    """

    def __init__(
        self, store: ObjectStore, meter: Meter, report: Callable[[int], None] = lambda size_bytes: None
    ) -> None:
        def after(size_bytes: int) -> None:
            meter.after(size_bytes)
            report(size_bytes)

        super().__init__(store, after, meter.before)
