"""How many steps a call takes, as the interpreter counts them: the same on every machine, busy or not."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any


class _Count:
    steps = 0


def steps(call: Callable[[], object]) -> int:
    """Bytecodes that run in this thread; not what C code goes through, nor collecting what others have left."""
    count, collects = _Count(), gc.isenabled()
    gc.disable()
    try:
        with _monitored(count) if sys.version_info >= (3, 12) else _traced(count):
            call()
    finally:
        if collects:
            gc.enable()
    return count.steps


@contextmanager
def _traced(count: _Count) -> Iterator[None]:
    def trace(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count.steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def _monitored(count: _Count) -> Iterator[None]:
    """`_traced` misses code there that has not run before."""
    if sys.version_info < (3, 12):
        raise AssertionError("sys.monitoring came with Python 3.12")

    here = threading.get_ident()

    def one(code: CodeType, offset: int) -> None:
        count.steps += threading.get_ident() == here

    monitoring = sys.monitoring
    tool = next(number for number in range(6) if monitoring.get_tool(number) is None)
    monitoring.use_tool_id(tool, __name__)
    monitoring.register_callback(tool, monitoring.events.INSTRUCTION, one)
    monitoring.set_events(tool, monitoring.events.INSTRUCTION)
    try:
        yield
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.INSTRUCTION, None)
        monitoring.free_tool_id(tool)
