"""Which of what waits to be sent goes with the next message. Pure."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

MOST_BYTES = 1 << 20  # of several together: what is larger is sent alone
MOST_TOGETHER = 1024  # however small they are: whoever receives them starts something for each

T = TypeVar("T")


def some(waiting: deque[tuple[T, int]]) -> list[T]:
    """Takes the first ones, at least one. Each has its bytes with it."""
    one, size_bytes = waiting.popleft()
    taken = [one]
    while waiting and len(taken) < MOST_TOGETHER and (size_bytes := size_bytes + waiting[0][1]) <= MOST_BYTES:
        taken.append(waiting.popleft()[0])
    return taken
