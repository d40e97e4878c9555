"""Standard error that nobody waits for: a thread of its own writes to it.

A server's log is a file, as a rule, and lies on the disk that it is about (a node's in its cache directory): where that
hangs, the first line about it held the loop, and with it every reader, heartbeat and order.
"""

from __future__ import annotations

import os
import queue
import threading
from typing import Any, TextIO

MOST_LINES = 10_000  # that wait to be written


class LateLines:
    """A text stream. In a process that is forked from this one it writes at once: the thread is not there.

    A line may be written while another one is, by the same thread: asyncio tells of lost exceptions when garbage is
    collected.
    """

    def __init__(self, stream: TextIO, most: int = MOST_LINES) -> None:
        self._stream, self._most = stream, most
        self._texts: queue.SimpleQueue[str | threading.Event | None] = queue.SimpleQueue()
        self._lost = 0
        self._at_once = False
        os.register_at_fork(after_in_child=self._forked)
        self._thread = threading.Thread(target=self._write_all, name="late lines", daemon=True)
        self._thread.start()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if self._at_once:
            return self._stream.write(text)
        if self._texts.qsize() < self._most:
            self._texts.put(text)
        else:
            self._lost += 1
        return len(text)

    def flush(self) -> None:
        """Waits for nothing; `written` does."""
        if self._at_once:
            self._stream.flush()

    def written(self, within_s: float) -> bool:
        """Whether everything is written by then."""
        if self._at_once:
            return True
        written = threading.Event()
        self._texts.put(written)
        return written.wait(within_s)

    def close(self) -> None:
        """When all is written. The stream stays open."""
        self._texts.put(None)
        self._thread.join()

    def _forked(self) -> None:
        self._at_once = True

    def _write_all(self) -> None:
        while (text := self._texts.get()) is not None:
            if isinstance(text, threading.Event):
                text.set()
                continue
            if self._lost:
                lost, self._lost = self._lost, 0
                text = f"({lost} lines of the log were left out: it could not be written)\n{text}"
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):  # full, or closed: there is nobody else to tell
                pass
