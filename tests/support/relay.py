"""A way to a server that can be cut, and mended: what was under way is lost, as with a kill."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tfquiver.grpc_plumbing import addresses


class _Pair:
    """A connection, and the one that it is passed on to."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self._ends = near, far
        self._threads = [threading.Thread(target=_pass_on, args=ends) for ends in ((near, far), (far, near))]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        for end in self._ends:
            _end(end)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()


class Relay:
    """Listens at `address`, for a server at `to` (host:port)."""

    def __init__(self, to: str) -> None:
        self._to, self._lock, self._is_cut = addresses.split(to), threading.Lock(), False
        self._listening = socket.create_server(("localhost", 0))
        self.address = f"localhost:{self._listening.getsockname()[1]}"
        self._pairs: list[_Pair] = []
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def cut(self) -> None:
        """Who connects from now on is sent away."""
        with self._lock:
            self._is_cut = True
            ending, self._pairs = self._pairs, []
        for pair in ending:
            pair.close()

    def mend(self) -> None:
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        _end(self._listening)
        self._thread.join()
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    near.close()
                    continue
                try:
                    self._pairs.append(_Pair(near, socket.create_connection(self._to)))
                except OSError:  # the server is away
                    near.close()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
    _end(other)


def _end(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay(to: str) -> Iterator[Relay]:
    made = Relay(to)
    try:
        yield made
    finally:
        made.close()
