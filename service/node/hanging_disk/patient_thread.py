"""One thread for calls that may wait for the disk, and patience that ends: for threads that can go on without."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from tfquiver import errors

T = TypeVar("T")
PATIENCE_S = 10.0


class PatientThread:
    """Thread-safe; blocks."""

    def __init__(self, name: str, patience_s: float = PATIENCE_S) -> None:
        self._pool, self._patience_s = ThreadPoolExecutor(1, name), patience_s
        self._lock = threading.Lock()
        self._late: Future[Any] | None = None  # nobody waits for it any more; until it is over nobody begins to

    def run(self, call: Callable[..., T], *arguments: object) -> T:
        """Raises UnavailableError: it is not done in time, and may be later, or not at all."""
        with self._lock:
            if self._late is not None and not self._late.done():
                raise errors.UnavailableError("the disk has not answered yet")
            running = self._pool.submit(call, *arguments)
        try:
            return running.result(self._patience_s)
        except TimeoutError as error:
            if running.done():  # it is the call's own, or came this very moment
                return running.result()
            if not running.cancel():
                with self._lock:
                    self._late = running
            raise errors.UnavailableError(f"the disk does not answer within {self._patience_s:g} s") from error

    def close(self) -> None:
        """Waits for the thread."""
        self._pool.shutdown(True, cancel_futures=True)
