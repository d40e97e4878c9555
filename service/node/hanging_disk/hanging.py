"""Which calls wait for the disk, and for how long. Pure, but for its lock: times are of the clock that it is given."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tfquiver.clock import Clock

HANGS_S = 10.0  # one that takes longer, and in which nothing moves for so long, is said to hang


class Hanging:
    """Of the disk of one cache directory. Thread-safe."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self.directory, self._clock = directory, clock
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._since_s: dict[int, float] = {}  # oldest first

    @contextlib.contextmanager
    def waits(self) -> Iterator[Callable[[], None]]:
        """Around a call that may wait for the disk. What it gives is called when a part of it is done: a disk that is
        slow answers."""
        with self._lock:
            number = next(self._numbers)
            self._since_s[number] = self._clock.now()

        def moved() -> None:
            with self._lock:
                del self._since_s[number]  # so that it is the last one
                self._since_s[number] = self._clock.now()

        try:
            yield moved
        finally:
            with self._lock:
                del self._since_s[number]

    def for_s(self) -> float:
        """How long it has not answered somebody; 0: nobody has waited for long."""
        with self._lock:
            oldest_s = next(iter(self._since_s.values()), None)
        if oldest_s is None:
            return 0.0
        waited_s = self._clock.now() - oldest_s
        return waited_s if waited_s > HANGS_S else 0.0

    def trouble(self) -> str:
        """As a sentence; empty: it answers, as far as is known."""
        for_s = self.for_s()
        return f"{self.directory}: the disk has not answered for {for_s:.0f} s" if for_s else ""
