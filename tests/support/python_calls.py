"""How much Python does, where that must not grow with what there is: calls counted, which come out alike on any
machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def python_calls(work: Callable[[], object]) -> int:
    """Calls that `work` makes in this thread, of functions written in Python and in C."""
    counted = 0

    def count(frame: Any, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted
