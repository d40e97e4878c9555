"""One thread for calls that may wait for the disk, and patience that ends: for threads that can go on without."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from tfquiver import errors
from tfquiver.service.node.hanging_disk.hanging import Hanging

T = TypeVar("T")
PATIENCE_S = 10.0
_LOOK_S = 0.25


class PatientThread:
    """Thread-safe; blocks. `hanging`: of the disk that its calls wait for; who waits for that elsewhere knows of them,
    and it of those: who would wait for one after the other waits once."""

    def __init__(self, name: str, patience_s: float = PATIENCE_S, hanging: Hanging | None = None) -> None:
        self._pool, self._patience_s, self._hanging = ThreadPoolExecutor(1, name), patience_s, hanging
        self._lock = threading.Lock()
        self._late: Future[Any] | None = None  # nobody waits for it any more; until it is over nobody begins to

    def run(self, call: Callable[..., T], *arguments: object) -> T:
        """Raises UnavailableError: it is not done in time, and may be later, or not at all."""
        with self._lock:
            if self._late is not None and not self._late.done():
                raise errors.UnavailableError("the disk has not answered yet")
            if self._hanging is not None and (trouble := self._hanging.trouble()):
                raise errors.UnavailableError(trouble)
            running = self._pool.submit(self._waits, call, *arguments)
        try:
            return result_of(running, self._patience_s, self._hanging)
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

    def _waits(self, call: Callable[..., T], *arguments: object) -> T:
        with contextlib.nullcontext() if self._hanging is None else self._hanging.waits():
            return call(*arguments)


def result_of(running: Future[T], patience_s: float, hanging: Hanging | None) -> T:
    """What comes of it. Raises TimeoutError after so long, and soon where the disk is known to hang by then."""
    give_up_at = time.monotonic() + patience_s
    while True:
        left_s = give_up_at - time.monotonic()
        try:
            return running.result(max(0.0, min(_LOOK_S, left_s)))
        except TimeoutError:
            if running.done() or left_s <= _LOOK_S or (hanging is not None and hanging.for_s()):
                raise
