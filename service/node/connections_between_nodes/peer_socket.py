"""A blocking TCP connection to a peer, on which no wait is without an end."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable

from tfquiver.service.node.bodies_sent_between_nodes.body_pace import BodyPace

CONNECT_S = 3.0
SILENCE_S = 5.0  # a living peer says WORKING every second
MIN_BYTES_PER_S = 256 << 10  # of each body that has begun to come; the object store is faster than less
_TIMEVAL = struct.Struct("@ll")


class PeerSocket:
    """Raises OSError and EOFError as the kernel says; TimeoutError when the peer is silent, or slower than it may be.

    One thread at a time uses it; `shut_down` may be called by any.
    """

    def __init__(self, host: str, port: int) -> None:
        self._silence_s, self._min_bytes_per_s = SILENCE_S, MIN_BYTES_PER_S
        self._sock = socket.create_connection((host, port), CONNECT_S)
        # The kernel's limits and not Python's: those make the socket non-blocking, and a body some five times as many
        # calls, for each of which the interpreter's lock is let go and taken.
        self._sock.settimeout(None)
        limit = _TIMEVAL.pack(int(SILENCE_S), int(SILENCE_S % 1 * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._sock.setsockopt(socket.SOL_SOCKET, option, limit)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fill(self, view: memoryview) -> None:
        """Receives all of it: of a frame."""
        give_up_at = self._give_up_at(len(view))
        while view:
            view = view[self._received(view) :]
            self._in_time(view, give_up_at)

    def body(self, size_bytes: int) -> Callable[[memoryview], None]:
        """What receives a body of so many bytes piece by piece, as `fill`: the least rate is that of all of it."""
        pace = BodyPace(size_bytes, self._silence_s, self._min_bytes_per_s)

        def fill(view: memoryview) -> None:
            while view:
                began_s = time.monotonic()
                got = self._received(view)
                pace.waited(time.monotonic() - began_s, got)
                view = view[got:]
                if pace.late:
                    raise TimeoutError(f"slower than {self._min_bytes_per_s} bytes a second")

        return fill

    def send(self, data: bytes | memoryview) -> None:
        """Sends all of it."""
        view = memoryview(data)
        give_up_at = self._give_up_at(len(view))
        while view:
            try:
                view = view[self._sock.send(view) :]
            except BlockingIOError as error:
                raise TimeoutError(f"it has taken nothing for {self._silence_s:g} s") from error
            self._in_time(view, give_up_at)

    def shut_down(self) -> None:
        """Whoever waits here is released."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()

    def _received(self, view: memoryview) -> int:
        """Bytes, up to all of it; fewer where it has been silent for a while since the first of them."""
        try:
            got = self._sock.recv_into(view, 0, socket.MSG_WAITALL)
        except BlockingIOError as error:
            raise TimeoutError(f"silent for {self._silence_s:g} s") from error
        if not got:
            raise EOFError("it has closed the connection")
        return got

    def _give_up_at(self, size_bytes: int) -> float:
        return time.monotonic() + self._silence_s + size_bytes / self._min_bytes_per_s

    def _in_time(self, left: memoryview, give_up_at: float) -> None:
        if left and time.monotonic() > give_up_at:
            raise TimeoutError(f"slower than {self._min_bytes_per_s} bytes a second")
