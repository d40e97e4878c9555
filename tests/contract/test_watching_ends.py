"""Data sets go when the garbage collector finds them, in whichever thread and place it runs: nobody waits for it."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import wait_until
from tests.support.garbage import Cycle, collected_by_hand
from tfquiver.server_reachability import watched_servers
from tfquiver.server_reachability.watched_servers import Watched

NOBODY = Watched("localhost:1", "coordinator", "it is waited for")


@pytest.fixture
def own_garbage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(watched_servers, "user_of", lambda made: made)
    monkeypatch.setattr(watched_servers, "_LOOK_S", 0.01)
    monkeypatch.setattr(watched_servers, "_LOOK_AGAIN_S", 0.01)
    with collected_by_hand():
        yield


def collected_where(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """The garbage is collected as the watching thread calls this."""
    call = getattr(owner, name)

    def collecting(*args: Any, **kwargs: Any) -> Any:
        thread = args[0] if isinstance(args[0], threading.Thread) else threading.current_thread()
        if thread.name.startswith("tfquiver watches"):
            gc.collect()
        return call(*args, **kwargs)

    monkeypatch.setattr(owner, name, collecting)


def in_time(step: Any) -> bool:
    thread = threading.Thread(target=step, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


@pytest.mark.slow
def test_the_last_data_set_goes_while_the_thread_that_watches_for_it_begins_to_wait(
    own_garbage: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected_where(monkeypatch, threading.Condition, "wait")
    made = Cycle()
    gone = weakref.ref(made)
    watched_servers.watch(NOBODY, made)
    del made
    wait_until(lambda: gone() is None, "it is collected")
    assert in_time(watched_servers.close_all)


def test_a_data_set_goes_while_a_thread_for_another_one_starts(
    own_garbage: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Cycle(), Cycle()
    watched_servers.watch(NOBODY, first)
    del first
    collected_where(monkeypatch, threading.Thread, "_set_native_id")
    other = Watched("localhost:2", "coordinator", "it is waited for")
    assert in_time(lambda: watched_servers.watch(other, second))
    assert in_time(watched_servers.close_all)
