"""A server that takes long to start says so, and what it waits for: nobody would know that a disk does not answer."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from absl import logging

FIRST_S, AGAIN_S = 10.0, 30.0


@contextlib.contextmanager
def said(directory: Path) -> Iterator[None]:
    """Around a start that reads `directory`. From a thread: on the event loop something may wait for that disk."""
    over, began_s = threading.Event(), time.monotonic()

    def say() -> None:
        pause_s = FIRST_S
        while not over.wait(pause_s):
            logging.warning(
                "%s: has been starting for %.0f s, and is not ready: there is much to read, or its disk, or what it is "
                "to reach, does not answer", directory, time.monotonic() - began_s,
            )  # fmt: skip
            pause_s = AGAIN_S

    saying = threading.Thread(target=say, name="slow start", daemon=True)
    saying.start()
    try:
        yield
    finally:
        over.set()
