"""The first two frames on a node's socket."""

from __future__ import annotations

import os
import socket

from tfquiver.messages_and_binary_formats import greeting_frames as frames


def greeted(path: str, timeout_s: float, role: int = frames.ROLE_READER) -> tuple[socket.socket, bytes]:
    """A connection on which somebody has answered HELLO, and the answer, unread. The connection still has the timeout.

    Raises OSError: nobody did.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(timeout_s)
        connection.connect(path)
        connection.send(frames.encode(frames.Hello(role, os.getpid(), "")))
        answer = connection.recv(frames.MAX_FRAME_BYTES)
        if not answer:
            raise ConnectionResetError("the node closed the connection")
    except BaseException:
        connection.close()
        raise
    return connection, answer
