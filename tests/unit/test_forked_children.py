"""A child that a process forks has none of its threads: it waits for none of their locks, and ends none of them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tfquiver.data_sources_found_and_registered import made_datasets
from tfquiver.data_sources_found_and_registered.made_datasets import MadeDataset
from tfquiver.node_daemon_and_notes_in_directories import endpoints

_LONG_S = 20


def _in_child(run: Callable[[], object]) -> int:
    """How a forked child ends that runs this: 0 if nothing goes wrong."""
    if not (child := os.fork()):
        signal.alarm(_LONG_S)
        try:
            run()
        except BaseException:  # noqa: BLE001 - the child must not run the tests that come
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


DATA = MadeDataset("", "key", "", "", "")


@pytest.mark.parametrize(
    ("module", "run"),
    [
        (made_datasets, lambda: made_datasets.forget(DATA)),
        (endpoints, lambda: endpoints.release("name")),
    ],
)
def test_a_lock_that_a_thread_held_is_free(module: SimpleNamespace, run: Callable[[], None]) -> None:
    held, done = threading.Event(), threading.Event()

    def holds() -> None:
        with module._lock:
            held.set()
            done.wait(_LONG_S * 2)

    thread = threading.Thread(target=holds)
    thread.start()
    assert held.wait(_LONG_S)
    try:
        assert _in_child(run) == 0
    finally:
        done.set()
        thread.join()


def test_the_way_to_a_node_is_the_parents_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its thread waits on is the same pipe in both; the child gives up only its own ends."""

    def closed(wait: bool = True) -> None:
        raise AssertionError("closed by the child")

    left: list[int] = []
    kept = SimpleNamespace(close=closed, leave_to_parent=lambda: left.append(os.getpid()))
    monkeypatch.setattr(endpoints, "_kept", {"name": (kept, 1)})

    def leaves() -> None:
        assert left == [os.getpid()], "as soon as it is there"
        endpoints.release("name")
        endpoints.close_all()

    assert _in_child(leaves) == 0 and not left
