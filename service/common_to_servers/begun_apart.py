"""A call in a thread of its own, for which neither the end of the process waits nor who needs one of a loop's few
threads. For what may never end: code of others, the disk of anybody."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def begun(name: str, call: Callable[[], T]) -> Future[T]:
    """What it returns or raises. It cannot be cancelled: who waits no longer leaves it alone."""
    outcome = Future[T]()
    outcome.set_running_or_notify_cancel()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - whoever waits for it hears of it
            outcome.set_exception(error)

    Thread(target=run, name=name, daemon=True).start()
    return outcome
