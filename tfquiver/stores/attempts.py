"""Trying again until a deadline: exponential backoff with full jitter."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TypeVar

from tfquiver import errors
from tfquiver.clock import Clock, SystemClock

T = TypeVar("T")
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


class Transient(Exception):
    """A failure that another attempt may not meet. Its text is what the caller is told in the end."""


class Attempts:
    """Runs calls against one store; `stop` ends the waiting ones. Thread-safe.

    Clock, pause and randomness are arguments: `pause(seconds)` returns True when it was cut short by `stop`.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        pause: Callable[[float], bool] | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._stopped = threading.Event()
        self._clock = clock or SystemClock()
        self._pause = pause or self._stopped.wait
        self._uniform = uniform

    def stop(self) -> None:
        self._stopped.set()

    def run(self, what: str, deadline_s: float, attempt: Callable[[float], T]) -> T:
        """`attempt(seconds left)` until it returns, raises anything but Transient, or the deadline is over.

        Raises:
          UnavailableError: the deadline is over; names `what` and the last failure.
          CancelledError_: the store was closed.
        """
        start = self._clock.now()
        longest_s = _FIRST_PAUSE_S
        tries = 0
        while True:
            if self._stopped.is_set():
                raise errors.CancelledError_(f"{what}: the store was closed")
            left_s = start + deadline_s - self._clock.now()
            tries += 1
            try:
                return attempt(max(left_s, 0.001))
            except Transient as failure:
                left_s = start + deadline_s - self._clock.now()
                pause_s = self._uniform(longest_s / 2, longest_s)
                if left_s <= pause_s:
                    raise errors.UnavailableError(
                        f"{what}: {failure} (tried {tries} times in {deadline_s - left_s:.1f} s)"
                    ) from failure
            if self._pause(pause_s):
                raise errors.CancelledError_(f"{what}: the store was closed")
            longest_s = min(longest_s * 2, _LONGEST_PAUSE_S)
