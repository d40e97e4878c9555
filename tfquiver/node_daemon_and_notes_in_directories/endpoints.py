"""Keeps this process's way to a node open: a name in the graph, a socket path in the op, one idle connection.

The idle connection counts as use, so that a daemon does not leave between two epochs; when it breaks (the daemon was
killed), the daemon is found or started again, told what it must know of this process, and then the op is told. The op
has the connection's descriptor, too: while it is broken no reader goes to what listens at the old path, however long
this process takes to notice. A graph names its node by a short name only, because graphs travel to machines where the
path means nothing.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from absl import logging

from tfquiver import closed_streams, errors
from tfquiver.clock import Clock, SystemClock
from tfquiver.messages_and_binary_formats import greeting_frames as frames
from tfquiver.node_daemon_and_notes_in_directories.daemon import find
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint
from tfquiver.plain_text import plain
from tfquiver.server_reachability.greeting import greeted
from tfquiver.server_reachability.outages import Outage
from tfquiver.server_reachability.told_nodes import Connected, SetEndpoint, ToldNodes

_CONNECT_S = 10.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.2, 1.0  # readers wait for it
_THEN = (
    "who reads through it waits, goes on as soon as it is back, and fails when it is away for longer than "
    "`reconnect_timeout_s` (60); it is looked for all the same"
)

Locate = Callable[[], NodeEndpoint]


_told_when_found: list[Callable[[str, NodeEndpoint], None]] = []
_told_when_closed: list[Callable[[], None]] = []


def tell(found: Callable[[str, NodeEndpoint], None], closed: Callable[[], None]) -> None:
    """`found(name, endpoint)` is called whenever a node was found or started, before the op is told where it is; where
    it raises UnavailableError or DeadlineError, the op is not told, and all is done again. `closed()` is called when
    all are let go."""
    _told_when_found.append(found)
    _told_when_closed.append(closed)


def running_node(cache_dir: Path) -> NodeEndpoint:
    """The node that runs in `cache_dir`. Raises NotFoundError when there is none that answers."""
    if (endpoint := find(cache_dir)) is None:
        raise errors.NotFoundError(
            f"no tfquiver-node answers in {cache_dir}; start one with --cache_dir={cache_dir}, and in a cluster with "
            "its --coordinator"
        )
    return endpoint


def name_of(cache_dir: Path) -> str:
    """The endpoint's name in a graph: the same for every spelling of one directory."""
    return "cache-" + hashlib.sha256(os.fsencode(os.path.realpath(cache_dir))).hexdigest()[:16]


class KeptEndpoint:
    """One endpoint: a thread waits on an idle connection to the node and renews both when it breaks.

    Thread-safe. `close` ends the thread; until then the node has a user.
    """

    def __init__(
        self, name: str, locate: Locate, library: SetEndpoint, clock: Clock | None = None, called: str = ""
    ) -> None:
        """Finds the node and connects before it returns; raises what `locate` raises, and UnavailableError.

        Args:
          called: what people know it by; "": the name.
        """
        self._name, self._called = name, called or name
        self._locate = locate
        self._library = library
        self._clock = clock or SystemClock()
        closed_streams.numbers_taken()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.Lock()
        self._closing = False
        try:
            self._endpoint, self._connection = self._connect()
        except BaseException:
            os.close(self._wake_read)
            os.close(self._wake_write)
            raise
        self._thread = threading.Thread(target=self._keep, name=f"tfquiver {name}", daemon=True)
        self._thread.start()

    @property
    def endpoint(self) -> NodeEndpoint:
        with self._lock:
            return self._endpoint

    def close(self, wait: bool = True) -> None:
        with self._lock:
            if not self._closing:
                self._closing = True
                os.write(self._wake_write, b"x")
        if wait:
            self._thread.join()

    def leave_to_parent(self) -> None:
        """In a forked child: the node is to see when the parent has ended."""
        self._connection.close()

    def _connect(self) -> tuple[NodeEndpoint, socket.socket]:
        endpoint = self._locate()
        try:
            connection, _ = greeted(endpoint.socket, _CONNECT_S)
        except OSError as error:
            raise errors.UnavailableError(f"the node at {endpoint.socket} does not answer: {error}") from error
        try:
            for found in _told_when_found:
                found(self._name, endpoint)
            with self._lock:  # who keeps it open anew after `close` tells the op after this, too
                if self._closing:
                    raise errors.CancelledError_("nobody needs the node any more")
                _told.tell(self._library, self._name, endpoint.socket, connection)
        except BaseException:
            connection.close()
            raise
        return endpoint, connection

    def _keep(self) -> None:
        try:
            while self._broken(self._connection):
                logging.warning("%s: the node is gone; finding or starting it again", self._called)
                renewed = self._reconnect()
                if renewed is None:
                    return
                self._connection.close()  # not before: the op looked at it
                self._connection = renewed
        finally:
            _told.take_back(self._library, self._name, self._connection)
            self._connection.close()
            os.close(self._wake_read)
            with self._lock:
                self._closing = True
                os.close(self._wake_write)

    def _broken(self, connection: socket.socket) -> bool:
        """Waits until the node is gone (True) or `close` was called (False)."""
        while True:
            if self._wake_read in _readable([connection.fileno(), self._wake_read], None):
                return False
            try:
                if not connection.recv(frames.MAX_FRAME_BYTES):
                    return True
            except OSError:
                return True

    def _reconnect(self) -> socket.socket | None:
        """A new connection; None when `close` was called meanwhile."""
        pause_s, gone_s, outage = 0.0, self._clock.now(), Outage(f"{self._called}: the node", _THEN)
        while not _readable([self._wake_read], pause_s):
            try:
                endpoint, connection = self._connect()
            except (errors.TfquiverError, OSError) as error:
                with self._lock:
                    if self._closing:
                        return None
                pause_s = min(max(pause_s * 2, _FIRST_PAUSE_S), _LAST_PAUSE_S)
                if told := outage.seen(str(error), self._clock.now()):
                    logging.error("%s", told)
                continue
            logging.warning("%s: the node is back, after %.1f s", self._called, self._clock.now() - gone_s)
            with self._lock:
                self._endpoint = endpoint
            return connection
        return None


def _readable(descriptors: list[int], timeout_s: float | None) -> set[int]:
    """Of any number: `select.select` takes none above 1023."""
    with selectors.PollSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        return {key.fd for key, _ in selector.select(timeout_s)}


_lock = threading.Lock()
# Given to `release`, which the garbage collector calls wherever it happens to run, maybe in a thread for which who has
# the lock waits: so it waits for nobody, and who has the lock sees to these.
_released: deque[str] = deque()
_kept: dict[str, tuple[KeptEndpoint, int]] = {}
_told = ToldNodes()


def is_told(name: str, path: str, connection: Connected) -> bool:
    """Whether what was connected to `path` just now leads to the node of that name that was found last, and told what
    it must know of this process."""
    return _told.leads_there(name, path, connection)


def acquire(name: str, locate: Locate, library: SetEndpoint, cache_dir: Path | None = None) -> NodeEndpoint:
    """Keeps the endpoint open until as many `release` calls. Raises what `locate` raises, and UnavailableError.

    Args:
      cache_dir: by which people are told of it.
    """
    called = f"cache_dir {plain(cache_dir)}" if cache_dir is not None else ""
    try:
        with _lock:
            if name in _kept:
                kept, users = _kept[name]
            else:
                kept, users = KeptEndpoint(name, locate, library, called=called), 0
            _kept[name] = (kept, users + 1)
            return kept.endpoint
    finally:
        _let_go()


def current(name: str) -> NodeEndpoint | None:
    """Where it was found last; None: it is not kept open."""
    with _lock:
        found = _kept.get(name)
    _let_go()
    return found[0].endpoint if found else None


def release(name: str) -> None:
    _released.append(name)
    _let_go()


def _let_go() -> None:
    while _released and _lock.acquire(blocking=False):
        unused = None
        try:
            name = _released.popleft() if _released else ""
            kept, users = _kept.pop(name, (None, 0))
            if kept and users > 1:
                _kept[name] = (kept, users - 1)
            else:
                unused = kept
        finally:
            _lock.release()
        if unused:
            unused.close(wait=False)


def close_all() -> None:
    """Lets go of every node, whoever still uses it; returns when the threads have ended."""
    with _lock:
        all_kept = [kept for kept, _ in _kept.values()]
        _kept.clear()
    for kept in all_kept:
        kept.close()
    for closed in _told_when_closed:
        closed()


def _leave_to_parent() -> None:
    """In a forked child: the threads are the parent's, and so is what they wait on. A lock may have been held."""
    global _lock, _told
    _lock, _told = threading.Lock(), ToldNodes()
    for kept, _ in _kept.values():
        kept.leave_to_parent()
    _kept.clear()
    _released.clear()


os.register_at_fork(after_in_child=_leave_to_parent)
atexit.register(close_all)
