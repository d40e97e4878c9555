"""Calls that may never come back (TensorFlow's, of a disk that hangs), made in a thread of their own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Apart:
    """`leave` waits for those that are under way: TensorFlow's objects must not go while a thread is in them."""

    def __init__(self) -> None:
        self._threads: set[threading.Thread] = set()

    def done(self, call: Callable[[], T], meanwhile: Callable[[], None], every_s: float) -> T:
        """What `call` returns or raises. `meanwhile`: called now and then, and ends the wait where it raises."""
        found: queue.SimpleQueue[tuple[list[T], BaseException | None]] = queue.SimpleQueue()

        def run() -> None:
            try:
                found.put(([call()], None))
            except BaseException as error:  # noqa: BLE001 - raised by who waits
                found.put(([], error))
            finally:
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="tfquiver stream", daemon=True)
        self._threads.add(thread)
        thread.start()
        while True:
            try:
                outcome, error = found.get(timeout=every_s)
            except queue.Empty:
                meanwhile()
                continue
            if error is not None:
                raise error
            return outcome[0]

    def leave(self, most_s: float) -> None:
        for thread in list(self._threads):
            thread.join(most_s)
