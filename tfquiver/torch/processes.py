"""As which of the processes that one thread began this one was begun: forked, spawned, or by the fork server.

multiprocessing counts, too, but over all threads: where two begin processes at the same time, the workers of one
DataLoader are not numbered one after the other.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from dataclasses import dataclass
from multiprocessing import context
from typing import Any


@dataclass(frozen=True, slots=True)
class Begun:
    """`thread`: of the parent, unlike every other that it had; `number`: of the processes that it began."""

    thread: int = 0
    number: int = 0


class _Here(threading.local):
    def __init__(self) -> None:
        self.begun: Begun = Begun(next(_threads))  # the last
        self.spawned: Any = lambda: None  # for whom that was


_threads = itertools.count(1)
_here = _Here()
_itself = Begun()


def begun() -> Begun:
    """This process; (0, 0) where nobody has said it."""
    return _itself


def spawned() -> Begun:
    """The process for which something is pickled now; the same, however much it is given."""
    popen = context.get_spawning_popen()
    if _here.spawned() is not popen:
        _here.spawned = weakref.ref(popen)
        _count()
    return _here.begun


def say(it_is: Begun) -> None:
    """Of this process, which was spawned."""
    global _itself
    _itself = it_is


def _count() -> None:
    _here.begun = Begun(_here.begun.thread, _here.begun.number + 1)


def _forked() -> None:
    say(_here.begun)


os.register_at_fork(before=_count, after_in_child=_forked)
