"""Trying again until a deadline: exponential backoff with full jitter."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from absl import logging

from tfquiver import errors
from tfquiver.clock import Clock, SystemClock
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds

T = TypeVar("T")
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_FIRST_CONTACT_S = 2.0
_LOG_EVERY_S = 5

# Told of every attempt that failed and is made again, in the thread that waits: a scan tells its client so.
on_retry: ContextVar[Callable[[str], None]] = ContextVar("on_retry", default=lambda trouble: None)

# Told when the store asked for less, in the thread that reads.
on_busy: ContextVar[Callable[[], None]] = ContextVar("on_busy", default=lambda: None)


class Transient(Exception):
    """A failure that another attempt may not meet. Its text is what the caller is told in the end."""


class Busy(Transient):
    """The store asks to be asked less."""


class Unreachable(Transient):
    """Nobody answered: no such host, no route, connection refused."""


class Attempts:
    """Runs calls against one store; `stop` ends the waiting ones. Thread-safe.

    A store that has never answered is given two seconds only: a wrong address is far more likely than a store that is
    just then away, and whoever wrote it waits at a terminal.

    Clock, pause and randomness are arguments: `pause(seconds)` returns True when it was cut short by `stop`. `hint`:
    what to check when nobody answers.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        pause: Callable[[float], bool] | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
        hint: str = "",
    ) -> None:
        self._stopped = threading.Event()
        self._clock = clock or SystemClock()
        self._pause = pause or self._stopped.wait
        self._uniform = uniform
        self._hint = hint
        self._answered = False

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
        before: Transient | None = None
        while True:
            if self._stopped.is_set():
                raise errors.CancelledError_(f"{what}: the store was closed")
            left_s = start + deadline_s - self._clock.now()
            tries += 1
            try:
                found = attempt(max(left_s, 0.001))
            except Transient as failure:
                hint = ""
                if isinstance(failure, Busy):
                    on_busy.get()()
                if not isinstance(failure, Unreachable):
                    self._answered = True
                elif not self._answered:
                    deadline_s = min(deadline_s, _FIRST_CONTACT_S)
                    hint = self._hint and f"; {self._hint}"
                left_s = start + deadline_s - self._clock.now()
                pause_s = self._uniform(longest_s / 2, longest_s)
                if left_s <= pause_s:
                    tried = f"tried {tries} times in {deadline_s - left_s:.1f} s"
                    if left_s <= 0 and before is not None:  # how that one would have failed is not known
                        failure, tried = before, f"{tried}; the last one was cut off"
                    raise errors.UnavailableError(f"{what}: {failure} ({tried}){hint}") from failure
                before = failure
                said = f"{what}: {failure}; trying again for {left_s:.0f} s"
            else:
                self._answered = True
                return found
            every_n_seconds(logging.WARNING, "%s", _LOG_EVERY_S, said)
            on_retry.get()(said)
            if self._pause(pause_s):
                raise errors.CancelledError_(f"{what}: the store was closed")
            longest_s = min(longest_s * 2, _LONGEST_PAUSE_S)
