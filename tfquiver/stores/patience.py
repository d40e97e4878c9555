"""Deadlines for calls that know none: a read from a dead NFS server, a library without timeouts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from tfquiver import errors

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
                    f"{what}: {len(late)} calls before it hang: is the file system or store behind it alive?"
                )
        outcome: _Outcome[T] = _Outcome()
        thread = threading.Thread(target=outcome.run, args=(call,), name="store call", daemon=True)
        thread.start()
        thread.join(deadline_s)
        if thread.is_alive():
            with self._lock:
                self._late.setdefault(of, set()).add(thread)
            raise errors.UnavailableError(
                f"{what}: no answer in {deadline_s:.1f} s; the call hangs: is the file system or store behind it alive?"
            )
        return outcome.get()


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
