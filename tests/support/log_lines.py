"""What this process logs, for tests that look at it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def capture_log() -> Iterator[list[str]]:
    """Every message from here on, as it comes."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("absl")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
