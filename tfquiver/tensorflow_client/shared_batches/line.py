"""A connection to the node, for one pass of a stream: frames with at most one descriptor each, for one thread."""

from __future__ import annotations

import array
import contextlib
import os
import socket
import threading
import weakref
from typing import NoReturn

from tfquiver import errors
from tfquiver.node_daemon import endpoints
from tfquiver.socket_frames import frames_received, stream_frames
from tfquiver.socket_frames import reader_frames as frames

_HELLO_S = 10.0

_open: weakref.WeakSet[StreamLine] = weakref.WeakSet()


class StreamLine:
    """Raises OSError where no node answers, ProtocolError where it is older than streams."""

    def __init__(self, endpoint: str, follow: stream_frames.Follow) -> None:
        found = endpoints.current(endpoint)
        if found is None:
            raise ConnectionResetError("the way to the node was closed")
        self._sending = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.settimeout(_HELLO_S)
            self._socket.connect(found.socket)
            self.send(frames.Hello(frames.ROLE_STREAM, os.getpid(), ""))
            first, fd = self.receive()
            if not isinstance(first, frames.Welcome) or fd >= 0:
                raise errors.ProtocolError(f"{first}: is the node older than this tfquiver? restart it")
            self._socket.settimeout(None)
            self.send(follow)
        except BaseException:
            self._socket.close()
            raise
        _open.add(self)

    def send(self, frame: frames.Frame, fd: int = -1) -> None:
        """From any thread. Raises OSError."""
        message = frames.encode(frame)
        with self._sending:
            if fd < 0:
                self._socket.send(message)
            else:
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
                self._socket.sendmsg([message], rights)

    def receive(self) -> tuple[frames.Frame, int]:
        """The next frame, and its descriptor, which is the caller's (-1: none). Raises OSError (also when `stop` was
        called), ProtocolError."""
        message, control, _, _ = self._socket.recvmsg(*frames_received.HOW)
        return frames_received.with_one_at_most(message, control)

    def stop(self) -> None:
        """From any thread: `receive` raises."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """When no other thread uses it."""
        _open.discard(self)
        self._socket.close()


def stop_all() -> None:
    """Of this process."""
    for line in list(_open):
        line.stop()


def refuse(frame: frames.Frame, fd: int) -> NoReturn:
    """Of a frame that does not belong here: raises what the node says, or ProtocolError."""
    if fd >= 0:
        os.close(fd)
    if isinstance(frame, frames.Error):
        raise errors.from_number(frame.code, frame.message)
    raise errors.ProtocolError(f"{type(frame).__name__} frame: not expected of a node here")
