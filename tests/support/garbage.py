"""What only the garbage collector lets go, and a time in which it runs when a test says so only."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


class Cycle:
    """As what TensorFlow makes a data set of."""

    def __init__(self) -> None:
        self.itself = self


@contextmanager
def collected_by_hand() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
