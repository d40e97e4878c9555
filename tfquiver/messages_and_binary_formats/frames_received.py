"""What a read of the node's socket has brought: a frame and its descriptors, or neither; then nothing stays open."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Iterable, Sequence

from tfquiver.errors import ProtocolError
from tfquiver.messages_and_binary_formats import reader_frames as frames

# For `recvmsg`: one byte more than a frame may have, and room for more descriptors than one brings.
HOW = (frames.MAX_FRAME_BYTES + 1, socket.CMSG_SPACE(4 * array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC)


def decoded(message: bytes, control: Iterable[tuple[int, int, bytes]]) -> tuple[frames.Frame, Sequence[int]]:
    """Of what `recvmsg(*HOW)` has given. The descriptors are the caller's.

    Raises ConnectionResetError: the node has closed the connection; ProtocolError.
    """
    descriptors = array.array("i")
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    try:
        if not message:
            raise ConnectionResetError("the node has closed the connection")
        return frames.decode(message), descriptors
    except (OSError, ProtocolError):
        _close(descriptors)
        raise


def with_one_at_most(message: bytes, control: Iterable[tuple[int, int, bytes]]) -> tuple[frames.Frame, int]:
    """As `decoded`, with the descriptor; -1: none."""
    frame, descriptors = decoded(message, control)
    if len(descriptors) > 1:
        _close(descriptors)
        raise ProtocolError(f"{len(descriptors)} descriptors came with a frame")
    return frame, descriptors[0] if descriptors else -1


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
