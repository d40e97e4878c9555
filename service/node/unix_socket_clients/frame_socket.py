"""One non-blocking SOCK_SEQPACKET connection: frames in through a callback, frames and descriptors out in order.

Lives on one asyncio loop. A descriptor given to `send` belongs to the socket: it is closed right after the kernel took
it, or when the connection ends.
"""

from __future__ import annotations

import array
import asyncio
import errno
import fcntl
import os
import socket
import threading
from collections import deque
from collections.abc import Callable

from tfquiver.errors import ProtocolError
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.version import VERSION

_MAX_DESCRIPTORS = 4  # room for what a confused peer sends; one is ever asked for
_CONTROL_BYTES = socket.CMSG_SPACE(_MAX_DESCRIPTORS * array.array("i").itemsize)
_FRAMES_A_WAKE = 64  # then the other connections get their turn
_FAREWELL_S = 2.0
_PAUSE_S = 0.02


def want_no_descriptors(frame: frames.Frame, descriptors: list[int]) -> None:
    """Closes them. Raises ProtocolError when there are any."""
    _close(*descriptors)
    if descriptors:
        raise ProtocolError(f"{type(frame).__name__} frame: it came with a descriptor")


class FrameSocket:
    """Args:
    sock: connected; owned from here on.
    on_frame: gets each frame and its descriptors, which it then owns. May raise ProtocolError.
    on_gone: called once, when the peer has gone, the protocol was broken, or `close` was called.
    on_blocked: told True when the peer does not take frames as fast as they come, False when it does again.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_frame: Callable[[frames.Frame, list[int]], None],
        on_gone: Callable[[], None],
        on_blocked: Callable[[bool], None],
    ) -> None:
        self._sock, self._on_frame, self._on_gone, self._on_blocked = sock, on_frame, on_gone, on_blocked
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[bytes, int]] = deque()
        self._farewell = False
        self._deaf = False
        self._open = True
        self._timer: asyncio.TimerHandle | None = None
        sock.setblocking(False)
        self._loop.add_reader(sock.fileno(), self._readable)

    def send(self, frame: frames.Frame, descriptor: int = -1) -> None:
        message = frames.encode(frame)
        if not self._open or self._farewell or self._deaf:
            _close(descriptor)
        elif self._queue or not self._give(message, descriptor):
            self._queue.append((message, descriptor))
            if len(self._queue) == 1:
                self._on_blocked(True)

    @property
    def blocked(self) -> bool:
        """The peer takes less than it is sent."""
        return bool(self._queue)

    def bid_farewell(self, frame: frames.Frame | None) -> None:
        """Sends a last frame and closes when the peer has, or soon.

        To close at once with frames of the peer unread would give it ECONNRESET before it saw the last frame.
        """
        if not self._open or self._farewell:
            return
        if frame is not None:
            self.send(frame)
        self._farewell = True
        if not self._queue:
            self._shut()
        self._loop.call_later(_FAREWELL_S, self.close)

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        if self._timer is not None:
            self._timer.cancel()
        self._sock.close()
        for _, descriptor in self._queue:
            _close(descriptor)
        self._queue.clear()
        self._on_gone()

    def _shut(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:  # the peer was faster
            self.close()

    def _readable(self) -> None:
        for _ in range(_FRAMES_A_WAKE):
            if not self._open or not self._receive():
                return

    def _receive(self) -> bool:
        try:
            message, control, flags, _ = self._sock.recvmsg(
                frames.MAX_FRAME_BYTES + 1, _CONTROL_BYTES, socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True  # the peer left frames unread; its own, sent before that, are still to be read
        except OSError:
            self.close()
            return False
        descriptors = _descriptors(control)
        if not all(map(_is_memory, descriptors)):
            # To close a socket, or a file of a file system of the peer's own, takes as long as the peer likes.
            threading.Thread(target=_close, args=descriptors, name="close what came", daemon=True).start()
            self._refuse(ProtocolError("a descriptor came that is no memory file"))
            return True
        if not message:
            _close(*descriptors)
            self.close()
            return False
        if self._farewell:
            _close(*descriptors)
            return True
        try:
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise ProtocolError(f"a message of more than {frames.MAX_FRAME_BYTES} bytes or with many descriptors")
            frame = frames.decode(message)
        except ProtocolError as error:
            _close(*descriptors)
            self._refuse(error)
            return True
        try:
            self._on_frame(frame, descriptors)
        except ProtocolError as error:
            self._refuse(error)
        return True

    def _refuse(self, error: ProtocolError) -> None:
        told = ProtocolError(f"{error} (this node is tfquiver {VERSION}: is the reader of another version?)")
        self.bid_farewell(frames.error(told, fatal=True))

    def _give(self, message: bytes, descriptor: int) -> bool:
        try:
            if descriptor < 0:
                self._sock.send(message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            else:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptor.to_bytes(4, "little"))]
                self._sock.sendmsg([message], rights, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            self._loop.add_writer(self._sock.fileno(), self._writable)
            return False
        except OSError as error:
            if error.errno in (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM):
                # Too many descriptors in flight to peers that do not read: no event tells when that is over.
                self._timer = self._loop.call_later(_PAUSE_S, self._writable)
                return False
            # The peer is gone, but its last frames (ACK, CLOSE) may still wait here: read on until they end.
            self._deaf = True
        _close(descriptor)
        return True

    def _writable(self) -> None:
        self._loop.remove_writer(self._sock.fileno())
        while self._open and self._queue:
            if not self._give(*self._queue[0]):
                return
            self._queue.popleft()
        if self._open:
            if self._farewell:
                self._shut()
            else:
                self._on_blocked(False)


def _descriptors(control: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)


def _is_memory(descriptor: int) -> bool:
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) >= 0
    except OSError:
        return False


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        if descriptor >= 0:
            os.close(descriptor)
