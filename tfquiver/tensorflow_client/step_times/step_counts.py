"""How many steps a training has made, how long they took, and how long it was until the next. Pure but for a lock."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

MOST_RECORDS = 1 << 40  # of one step


@dataclass(frozen=True, slots=True)
class StepTotals:
    """All since counting began. `records` 0: nobody says how many a step takes."""

    steps: int = 0
    step_s: float = 0.0
    between_s: float = 0.0
    records: int = 0


class StepCounts:
    """Thread-safe. A step within a step of the same thread is a part of it; of steps that several threads make at a
    time each counts, and their time once. What raises is no step. The first, which traces and compiles, is left out."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.process = uuid.uuid4().hex  # unlike everybody else's
        self.accelerators = 0  # 0: not known
        self.waits_inside = False
        self._steps, self._records, self._step_s, self._between_s = 0, 0, 0.0, 0.0
        self.moved_at = clock()  # when a step began or ended
        self._clock, self._lock = clock, threading.Lock()
        self._depths: dict[int, int] = {}  # of each thread that is in a step
        self._counted_until = 0.0  # while somebody is in a step
        self._waited_s = 0.0  # before the step that is under way
        self._ended_at: float | None = None  # None: what follows does not count as time between steps
        self._compiled = False

    @property
    def totals(self) -> StepTotals:
        with self._lock:
            return StepTotals(self._steps, self._step_s, self._between_s, self._records)

    def begin(self) -> None:
        thread, now = threading.get_ident(), self._clock()
        with self._lock:
            self.moved_at = now
            depth = self._depths.get(thread, 0)
            if not self._depths:
                self._counted_until = now
                self._waited_s = 0.0 if self._ended_at is None else max(now - self._ended_at, 0.0)
            self._depths[thread] = depth + 1

    def end(self, steps: int = 1, records: int = 0, whole: bool = True) -> None:
        """`steps` that this was, of `records` together; not `whole`: it has failed. Without `begin`: nothing."""
        thread, now = threading.get_ident(), self._clock()
        with self._lock:
            self.moved_at = now
            depth = self._depths.pop(thread, 0)
            if depth > 1:
                self._depths[thread] = depth - 1
            if depth != 1:
                return
            step_s, self._counted_until = max(now - self._counted_until, 0.0), now
            waited_s, self._waited_s = self._waited_s, 0.0
            self._ended_at = now if whole else None
            if whole and self._compiled:
                self._steps += steps
                self._records += records
                self._step_s += step_s
                self._between_s += waited_s
            self._compiled = self._compiled or whole

    def pause(self) -> None:
        """What comes until the next step is something else: a validation, the end of an epoch. A step that this thread
        has begun is none: Keras says nothing of the end of one that fails, or finds no more data."""
        thread = threading.get_ident()
        with self._lock:
            self._depths.pop(thread, None)
            self._ended_at = None

    def idle_s(self) -> float:
        return self._clock() - self.moved_at
