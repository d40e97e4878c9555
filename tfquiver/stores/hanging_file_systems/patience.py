"""Deadlines for calls that know none: a read from a dead NFS server, a library without timeouts."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

from tfquiver import errors
from tfquiver.sizes_durations_amounts.amounts import many

T = TypeVar("T")
_MAX_HUNG = 256  # each holds a thread, which nothing can end


class Patience:
    """Thread-safe. A call that is late goes on in a thread of its own; nobody waits for it any more.

    Args:
      max_hung: threads that may be lost so to each part of what is called.
    """

    def __init__(self, max_hung: int = _MAX_HUNG) -> None:
        self._max_hung = max_hung
        self._lock = threading.Lock()
        self._late: dict[str, set[threading.Thread]] = {}  # by what hangs as a whole

    def call(self, what: object, deadline_s: float, call: Callable[[], T], of: str = "") -> T:
        """What `call` returns or raises. Raises UnavailableError naming `what` when it is late, or too many are.

        `what`: as it is called by then.

        `of`: what hangs as a whole: a file system. Calls of another one are not refused.
        """
        with self._lock:
            late = {thread for thread in self._late.pop(of, ()) if thread.is_alive()}
            if late:
                self._late[of] = late
            if len(late) >= self._max_hung:
                raise errors.UnavailableError(
                    f"{what}: {many(len(late), 'call before it hangs', 'calls before it hang')}: is the file "
                    "system or store behind it alive?"
                )
        outcome: _Outcome[T] = _Outcome()
        thread = _ran(lambda: outcome.run(call), deadline_s)
        if thread is not None:
            with self._lock:
                self._late.setdefault(of, set()).add(thread)
            raise errors.UnavailableError(
                f"{what}: no answer in {deadline_s:.1f} s; the call hangs: is the file system or store behind it alive?"
            )
        return outcome.get()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Meanwhile the calls that this thread makes, through whatever Patience, share one more: to start one takes longer
    than to read a small file. Another follows one that is late."""
    _shared.by_this = kept = _Kept()
    try:
        yield
    finally:
        _shared.by_this = None
        kept.end()


class _Shared(threading.local):
    by_this: _Kept | None = None


_shared = _Shared()


class _Kept:
    """A thread that makes one call after another."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._calls: SimpleQueue[tuple[Callable[[], None], threading.Lock] | None] = SimpleQueue()

    def ran(self, call: Callable[[], None], deadline_s: float) -> threading.Thread | None:
        thread = self._thread
        if thread is None:
            thread = threading.Thread(target=self._run, args=(self._calls,), name="store call", daemon=True)
            thread.start()
            self._thread = thread
        over = threading.Lock()
        over.acquire()
        self._calls.put((call, over))
        if over.acquire(timeout=deadline_s):
            return None
        self.end()
        return thread

    def end(self) -> None:
        """The next call, if there is one, is another thread's."""
        if self._thread is not None:
            self._calls.put(None)
            self._thread, self._calls = None, SimpleQueue()

    @staticmethod
    def _run(calls: SimpleQueue[tuple[Callable[[], None], threading.Lock] | None]) -> None:
        while (taken := calls.get()) is not None:
            call, over = taken
            call()
            over.release()
            del taken, call, over  # what it has brought is not held until the next one


def _ran(call: Callable[[], None], deadline_s: float) -> threading.Thread | None:
    """Makes it in another thread, which is given when it is late."""
    if _shared.by_this is not None:
        return _shared.by_this.ran(call, deadline_s)
    thread = threading.Thread(target=call, name="store call", daemon=True)
    thread.start()
    thread.join(deadline_s)
    return thread if thread.is_alive() else None


class _Outcome(Generic[T]):
    def __init__(self) -> None:
        self._found: list[T] = []
        self._error: BaseException | None = None

    def run(self, call: Callable[[], T]) -> None:
        try:
            self._found.append(call())
        except BaseException as error:  # noqa: BLE001 - whoever waits is given it
            self._error = error

    def get(self) -> T:
        if self._error is not None:
            raise self._error
        return self._found[0]
