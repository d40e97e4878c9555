"""Says when a server that data sets of this process are read through does not answer any more.

TensorFlow's client of tf.data service asks for ever and, as most people run it, without a word; nothing of ours stands
in its way. So a thread looks at each server's port now and then, for as long as there is a data set that needs it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from absl import logging

from tfquiver.grpc_plumbing import addresses
from tfquiver.server_reachability import grpc_answers
from tfquiver.server_reachability.lifetimes import user_of
from tfquiver.server_reachability.outages import Outage

if TYPE_CHECKING:
    import tensorflow as tf

_LOOK_S, _LOOK_AGAIN_S = 3.0, 1.0  # while it answers, and while it does not
_NEEDED_S = 0.25  # so soon it is seen that the last data set is gone
_ANSWER_S = 2.0
_END_S = 2 * _ANSWER_S


@dataclass(frozen=True, slots=True)
class Watched:
    """`kind`: of server, for people. `then`: what happens without it and what to do. `meanwhile`: called every
    `every_s` or a few seconds later for as long as it is watched, whether it answers or not; may raise OSError. `asks`:
    as Outage's."""

    address: str
    kind: str
    then: str
    meanwhile: Callable[[], None] = field(default=lambda: None, compare=False)
    asks: str = ""
    every_s: float = 9.0


@dataclass(slots=True)
class _Watch:
    """`users`: the thread looks who is alive. Nothing is done as they go: that is wherever the garbage collector runs,
    maybe in a thread that starts, or begins to wait, and holds a lock of Python's own."""

    thread: threading.Thread
    stop: threading.Event
    users: list[weakref.finalize[Any, Any]] = field(default_factory=list)


_lock = threading.Lock()
_watches: dict[Watched, _Watch] = {}


def watch(server: Watched, made: tf.data.Dataset) -> None:
    """Until the data set is gone. One thread for each server, whoever needs it. Nothing here stops a training."""
    if server.address.startswith("unix:") or not addresses.is_address(server.address):
        return
    user = weakref.finalize(user_of(made), _nothing)
    user.atexit = False
    with _lock:
        if (found := _watches.get(server)) is None:
            stop = threading.Event()
            thread = threading.Thread(
                target=_look, args=(server, stop), name=f"tfquiver watches {server.address}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:  # no thread more
                logging.warning("%s at %s is not watched: %s", server.kind, server.address, error)
                return
            found = _watches[server] = _Watch(thread, stop)
        found.users.append(user)


def _nothing() -> None:
    pass


def _is_needed(server: Watched, stop: threading.Event) -> bool:
    """No longer: the next that needs it has another thread."""
    with _lock:
        found = _watches.get(server)
        if found is None or found.stop is not stop:
            return False
        found.users = [user for user in found.users if user.alive]
        if not found.users:
            del _watches[server]
        return bool(found.users)


def _look(server: Watched, stop: threading.Event) -> None:
    outage = Outage(f"the {server.kind} at {server.address}", server.then, server.asks)
    due_s = 0.0
    while _waited(server, stop, _LOOK_AGAIN_S if outage.is_on else _LOOK_S):
        trouble = grpc_answers.trouble(server.address, _ANSWER_S)
        if told := outage.seen(trouble, time.monotonic()):
            if not _is_needed(server, stop):
                return
            logging.warning("%s", told)
        if time.monotonic() >= due_s:
            with contextlib.suppress(OSError):
                server.meanwhile()
            due_s = time.monotonic() + server.every_s


def _waited(server: Watched, stop: threading.Event, seconds: float) -> bool:
    """Whether it is still needed then; False as soon as it is not."""
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0:
        if stop.wait(min(left_s, _NEEDED_S)) or not _is_needed(server, stop):
            return False
    return True


def close_all() -> None:
    """Returns when the threads have ended."""
    with _lock:
        ending = list(_watches.values())
        _watches.clear()
    for one in ending:
        one.stop.set()
    for one in ending:
        one.thread.join(_END_S)


def _leave_to_parent() -> None:
    """In a forked child: the threads are the parent's, and one may have held the lock."""
    global _lock
    _lock = threading.Lock()
    _watches.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
atexit.register(close_all)
