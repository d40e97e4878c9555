"""A data set goes wherever the garbage collector runs, also where the node of another one is just being kept open."""

from __future__ import annotations

import gc
import socket
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.garbage import Cycle, collected_by_hand
from tfquiver.node_daemon_and_notes_in_directories import endpoints


class Library:
    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None:
        pass


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """That are found at once."""
    ends = list[socket.socket]()

    def connect(self: endpoints.KeptEndpoint) -> tuple[Any, socket.socket]:
        ours, its = socket.socketpair()
        ends.append(its)
        return self._locate(), ours

    monkeypatch.setattr(endpoints.KeptEndpoint, "_connect", connect)
    with collected_by_hand():
        yield
    for end in ends:
        end.close()


def test_a_data_set_goes_while_the_thread_for_another_ones_node_starts(
    nodes: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def locate() -> Any:
        return None

    begin = threading.Thread._set_native_id  # type: ignore[attr-defined]

    def collecting(self: threading.Thread) -> None:
        if self.name == "tfquiver second":
            gc.collect()
        begin(self)

    monkeypatch.setattr(threading.Thread, "_set_native_id", collecting)
    made = Cycle()
    gone = weakref.ref(made)
    endpoints.acquire("first", locate, Library())
    weakref.finalize(made, endpoints.release, "first")
    del made
    user = threading.Thread(target=endpoints.acquire, args=("second", locate, Library()), daemon=True)
    user.start()
    user.join(10)
    assert not user.is_alive()
    assert gone() is None
    assert list(endpoints._kept) == ["second"]
    endpoints.release("second")
    assert not endpoints._kept
