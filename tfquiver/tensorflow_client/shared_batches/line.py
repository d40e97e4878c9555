"""A connection to the node, for one pass of a stream: frames with at most one descriptor each, for one thread."""

from __future__ import annotations

import array
import contextlib
import os
import socket
import threading
import time
import weakref
from typing import NoReturn

from tfquiver import errors
from tfquiver.messages_and_binary_formats import frames_received, stream_frames
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.node_daemon_and_notes_in_directories import endpoints

HELLO_S = 10.0
PING_S = 3.0
SILENT_S = 20.0  # a node that answers PING at all answers it so soon

_open: weakref.WeakSet[StreamLine] = weakref.WeakSet()


class StreamLine:
    """Raises OSError where no node answers within `hello_s`, ProtocolError where it is older than streams.

    Attributes:
      answers: the node answers PING.
      disk_waits_s: for how long the node's oldest read of its disk had been under way when it said so last.
    """

    def __init__(self, endpoint: str, follow: stream_frames.Follow, hello_s: float = HELLO_S) -> None:
        found = endpoints.current(endpoint)
        if found is None:
            raise ConnectionResetError("the way to the node was closed")
        self._sending = threading.Lock()
        self.disk_waits_s = 0.0
        self.answers = False  # older nodes do not
        self._said_at = self._pinged_at = 0.0  # the last PING; the first since something was heard (0: none)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _open.add(self)
        try:
            self._socket.settimeout(hello_s)
            self._socket.connect(found.socket)
            self.send(frames.Hello(frames.ROLE_STREAM, os.getpid(), ""))
            first, fd = self.receive()
            if not isinstance(first, frames.Welcome) or fd >= 0:
                raise errors.ProtocolError(f"{first}: is the node older than this tfquiver? restart it")
            self.send(follow)
        except BaseException:
            self.close()
            raise

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
        called, or nothing comes for ten seconds), ProtocolError."""
        message, control, _, _ = self._socket.recvmsg(*frames_received.HOW)
        return frames_received.with_one_at_most(message, control)

    def is_patient(self) -> None:
        """From now on `receive` waits for as long as it takes."""
        self._socket.settimeout(None)

    def hear(self, wait_s: float) -> tuple[frames.Frame, int] | None:
        """Of one who follows: as `receive`, if something comes within so long, or a few seconds. The node is asked
        meanwhile whether it is there. Raises TimeoutError, an OSError, where it is not."""
        now = time.monotonic()
        if not self._said_at or now - self._said_at >= PING_S:
            self.send(frames.Ping())
            self._said_at, self._pinged_at = now, self._pinged_at or now
        self._socket.settimeout(max(0.001, min(wait_s, PING_S)))
        try:
            frame, fd = self.receive()
        except TimeoutError:
            if self.answers and time.monotonic() - (self._pinged_at or now) >= SILENT_S:
                raise TimeoutError(f"it has said nothing for {SILENT_S:g} s") from None
            return None
        finally:
            self._socket.settimeout(HELLO_S)
        self._pinged_at = 0.0
        if isinstance(frame, frames.Pong) and fd < 0:
            self.answers, self.disk_waits_s = True, frame.report_ms / 1000
            return None
        return frame, fd

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


def _leave_to_parent() -> None:
    """In a forked child: the connections are the parent's, and the node is to see when that has ended."""
    for line in list(_open):
        line.close()


os.register_at_fork(after_in_child=_leave_to_parent)


def refuse(frame: frames.Frame, fd: int) -> NoReturn:
    """Of a frame that does not belong here: raises what the node says, or ProtocolError."""
    if fd >= 0:
        os.close(fd)
    if isinstance(frame, frames.Error):
        raise errors.from_number(frame.code, frame.message)
    raise errors.ProtocolError(f"{type(frame).__name__} frame: not expected of a node here")
