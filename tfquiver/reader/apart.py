"""Calls of the reader library that call Python's zlib back, where no signal's handler runs: not in the main thread.

An exception of a handler's (Ctrl-C) within the callback would be lost, and what was compressed with it: ctypes returns
anything then.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_BEGINS_S = 1.0


def done(call: Callable[[], T]) -> T:
    """What `call` returns, or raises. A signal's exception comes when `call` has ended, which must be soon."""
    if threading.current_thread() is not threading.main_thread() or sys.is_finalizing():
        return call()  # at the interpreter's end no other thread runs any more
    found: list[T] = []
    failed: list[BaseException] = []
    begun: list[bool] = []
    over: list[bool] = []
    # Plain locks: to begin or join a `threading.Thread` takes conditions, which an exception within leaves broken.
    ended = _thread.allocate_lock()
    ended.acquire()

    def run() -> None:
        begun.append(True)
        try:
            found.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            failed.append(error)
        finally:
            over.append(True)
            ended.release()

    try:
        _thread.start_new_thread(run, ())
        ended.acquire()
    except BaseException:
        if not over:  # else the lock is taken, or nobody needs it
            ended.acquire(timeout=-1 if begun else _BEGINS_S)  # it may not have begun at all
        raise
    if failed:
        raise failed[0]
    return found[0]
