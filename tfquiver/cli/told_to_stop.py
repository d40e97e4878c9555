"""What runs until it is told to stop: by Ctrl-C, by SIGTERM, or by the terminal that is closed. Who tells it again, to
the last moment of the process, changes nothing: neither what is put in order nor the exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def told(stop: Callable[[], None]) -> Iterator[None]:
    """`stop` is called once, on the running loop. For the main thread. What is ignored, as SIGHUP is under nohup, stays
    so. Where it was told, nothing but the end of the process may come after the block.

    The handlers of the loop go with it: a second Ctrl-C ended what was being removed, or the interpreter half-way to
    its end, which takes a tenth of a second.
    """
    loop, is_told = asyncio.get_running_loop(), False

    def once() -> None:
        nonlocal is_told
        if not is_told:
            is_told = True
            stop()

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    heard = [number for number in _SIGNALS if before[number] not in (signal.SIG_IGN, None)]  # None: no Python's handler
    for number in heard:
        loop.add_signal_handler(number, once)
    try:
        yield
    finally:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, heard)  # between two handlers there is none
        for number in heard:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN if is_told else before[number])
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
