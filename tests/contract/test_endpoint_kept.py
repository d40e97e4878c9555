"""What the op is told of a node that goes and comes back: the connection that is kept to it, and the next one when that
node, too, has been told what it must know."""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tfquiver import errors
from tfquiver.data_sources_found_and_registered.store_access import StoreAccess
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint
from tfquiver.stores.credentials.resolved import Access

_LONG_S = 20.0
Told = tuple[str, int]


class Library:
    """As the op: looks at the last connection that it was told of until it is told of another."""

    def __init__(self) -> None:
        self.told = queue.Queue[Told]()
        self.kept = -1

    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None:
        if self.kept >= 0:
            os.fstat(self.kept)  # raises: it was closed, and the number may be of something else
        self.kept = kept
        self.told.put((socket_path, kept))


@contextmanager
def node(path: Path) -> Iterator[None]:
    """Greets whoever comes, and hangs up when it ends."""
    connections = list[socket.socket]()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection)
            with suppress(BrokenPipeError):
                connection.send(frames.encode(frames.Welcome("n")))

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(8)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            path.unlink()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in connections:
                connection.close()


@pytest.fixture
def library() -> Library:
    return Library()


@pytest.fixture
def telling(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[str, NodeEndpoint], None]]:
    """Called in place of what tells nodes of stores and others."""
    told = list[Callable[[str, NodeEndpoint], None]]()
    monkeypatch.setattr(endpoints, "_told_when_found", told)
    monkeypatch.setattr(endpoints, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(endpoints, "_LAST_PAUSE_S", 0.01)
    return told


def kept_at(path: Path, library: Library) -> endpoints.KeptEndpoint:
    place = NodeEndpoint(str(path), f"unix:{path}", f"unix:{path}", "n")
    return endpoints.KeptEndpoint("n", lambda: place, library)


def test_the_op_looks_at_the_broken_connection_until_the_next_node_was_told(
    tmp_path: Path, library: Library, telling: list[Callable[[str, NodeEndpoint], None]]
) -> None:
    path, tries = tmp_path / "socket", 0

    def refuses_at_first(name: str, endpoint: NodeEndpoint) -> None:
        nonlocal tries
        tries += 1
        assert library.told.empty(), "before readers come"
        if tries < 3:
            raise errors.UnavailableError("it does not answer yet")

    with node(path):
        kept = kept_at(path, library)
        (said, first), still = library.told.get(timeout=_LONG_S), library.kept
        assert (said, first) == (str(path), still)
        telling.append(refuses_at_first)
    with node(path):
        said, second = library.told.get(timeout=_LONG_S)
        assert tries == 3 and (said, second) != (str(path), first)
        kept.close()
        assert library.told.get(timeout=_LONG_S) == (str(path), -1), "whoever is there will do for who reads on"


def test_who_reads_without_the_op_sees_the_same(
    tmp_path: Path, library: Library, telling: list[Callable[[str, NodeEndpoint], None]]
) -> None:
    path, goes_on = tmp_path / "socket", threading.Event()

    def is_told() -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as mine:
            mine.connect(str(path))
            assert not endpoints.is_told("n", f"{path}-elsewhere", mine)
            return endpoints.is_told("n", str(path), mine)

    with node(path):
        kept = kept_at(path, library)
        library.told.get_nowait()
        assert is_told()
        telling.append(lambda name, endpoint: goes_on.wait(_LONG_S) or None)
    with node(path):
        assert not is_told()
        goes_on.set()
        library.told.get(timeout=_LONG_S)
        assert is_told()
    with node(path), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as mine:
        mine.connect(str(path))
        kept.close()
        assert endpoints.is_told("n", str(path), mine), "nobody keeps it: whoever is there will do"


def test_who_keeps_a_node_open_anew_is_not_taken_back_by_who_kept_it_before(
    tmp_path: Path, library: Library, telling: list[Callable[[str, NodeEndpoint], None]]
) -> None:
    path = tmp_path / "socket"
    with node(path):
        before, now = kept_at(path, library), kept_at(path, library)
        before.close()
        (_, first), (_, second) = library.told.get_nowait(), library.told.get_nowait()
        assert library.told.empty() and first != second == library.kept
        now.close()
        assert library.told.get_nowait() == (str(path), -1)


def test_who_was_let_go_while_it_told_the_next_node_says_no_more_to_the_op(
    tmp_path: Path, library: Library, telling: list[Callable[[str, NodeEndpoint], None]]
) -> None:
    """Its word would take the place of that of who keeps the node open anew, and be taken back at once."""
    path, tells, goes_on = tmp_path / "socket", threading.Event(), threading.Event()

    def found(name: str, endpoint: NodeEndpoint) -> None:
        if threading.current_thread().name == "tfquiver n":  # not who finds it anew
            tells.set()
            goes_on.wait(_LONG_S)

    with node(path):
        before = kept_at(path, library)
        library.told.get_nowait()
        telling.append(found)
    with node(path):
        assert tells.wait(_LONG_S)
        before.close(wait=False)
        now = kept_at(path, library)
        assert library.told.get_nowait() == (str(path), library.kept)
        goes_on.set()
        before.close()
        assert library.told.empty() and library.kept >= 0
        now.close()


def test_a_node_that_does_not_hear_of_stores_is_not_one_that_was_told(tmp_path: Path) -> None:
    nowhere = NodeEndpoint(str(tmp_path / "socket"), "", "", "n")
    access = StoreAccess("")
    with pytest.raises(errors.UnavailableError, match="how to reach the store"):
        access.use([Access("s3", "{}")], nowhere)
    with pytest.raises(errors.UnavailableError, match="how to reach the store"):
        access.found(nowhere)
