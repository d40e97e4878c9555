"""What runs until it is told to stop: by Ctrl-C, by SIGTERM, or by the terminal that is closed. Who tells it again, to
the last moment of the process, changes nothing: neither what is put in order nor the exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TICK_S = 0.5


@contextmanager
def told(stop: Callable[[], None]) -> Iterator[None]:
    """`stop` is called once, on the running loop. For the main thread. What is ignored, as SIGHUP is under nohup, stays
    so. Where it was told, nothing but the end of the process may come after the block.

    The loop's own handlers (`add_signal_handler`) go with the loop: a second Ctrl-C ended what was being removed, or
    the interpreter half-way to its end, which takes a tenth of a second.
    """
    loop, is_told = asyncio.get_running_loop(), False

    def once() -> None:
        nonlocal is_told
        if not is_told:
            is_told = True
            stop()

    def hear(number: int, frame: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(once)

    ticking: asyncio.TimerHandle

    def tick() -> None:
        """A signal that comes just before the loop sleeps wakes nobody: it is heard when the loop does something."""
        nonlocal ticking
        ticking = loop.call_later(_TICK_S, tick)

    ticking = loop.call_later(_TICK_S, tick)
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    heard = [number for number in _SIGNALS if before[number] not in (signal.SIG_IGN, None)]  # None: no Python's handler
    for number in heard:
        signal.signal(number, hear)
    try:
        yield
    finally:
        ticking.cancel()
        for number in heard:
            signal.signal(number, signal.SIG_IGN if is_told else before[number])
