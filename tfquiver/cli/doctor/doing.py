"""What `tfquiver doctor` is looking at, on standard error, where that takes its time: TensorFlow is imported for one
look, a disk is written and read for another, and who does not answer is waited for."""

from __future__ import annotations

import sys
import time
from threading import Event, Thread
from typing import Self

from tfquiver.plain_text import plain

_LINE_S = 5.0


class Doing:
    def __init__(self, every_s: float = _LINE_S) -> None:
        self._what, self._since_s, self._every_s, self._over = "", time.monotonic(), every_s, Event()
        self._thread = Thread(target=self._tell, name="tells what is looked at", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def looks_at(self, what: str) -> None:
        self._what, self._since_s = what, time.monotonic()

    def _tell(self) -> None:
        while not self._over.wait(self._every_s):
            took_s = time.monotonic() - self._since_s
            print(f"tfquiver: looking at {plain(self._what, 300)}, {took_s:.0f} s", file=sys.stderr, flush=True)
