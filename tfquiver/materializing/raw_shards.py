"""The input's shards, got from this machine's node as a mount gets them (docs/protocol.md, "Mounts")."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence

from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.messages_and_binary_formats import frames_received
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.server_reachability.greeting import greeted

_CONNECT_S, _ANSWER_S = 10.0, 150.0  # a node gives a shard up after two minutes
_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_PASSES = (errors.UnavailableError, errors.ResourceExhaustedError, errors.DeadlineError, errors.ProtocolError, OSError)


class RawShards:
    """Thread-safe; a connection for each thread.

    Args:
      socket_path: where the node's socket is now; may raise UnavailableError.
      patience_s: how long a shard is asked for, over restarts of the node and failures that pass.
      is_told: whether what was connected to that path leads to the node that is meant (endpoints.is_told).
    """

    def __init__(
        self,
        digest: Digest,
        socket_path: Callable[[], str],
        patience_s: float,
        is_told: Callable[[str, socket.socket], bool],
    ) -> None:
        self._digest, self._socket_path, self._patience_s, self._is_told = digest, socket_path, patience_s, is_told
        self._mine = threading.local()

    def get(self, shard: int, wait: Callable[[float], bool]) -> bytes:
        """Its raw bytes, whose hash is right. `wait(seconds)`: true when nobody wants them any more.

        Raises UnavailableError, CancelledError_, and what the node says: StaleDigestError, DataLossError, ...
        """
        give_up_at, pause_s, again = time.monotonic() + self._patience_s, _PAUSE_S, False
        while True:
            try:
                data = self._asked(shard, again)
                if hashlib.sha256(data).digest() == self._digest.hashes[shard].tobytes():
                    return data
                again = True
                trouble: Exception = errors.UnavailableError(f"shard {shard} came damaged")
            except _PASSES as error:
                trouble = error
                self.close_mine()
            if time.monotonic() > give_up_at:
                raise errors.UnavailableError(f"{trouble} (for {self._patience_s:g} s)") from trouble
            if wait(pause_s):
                raise errors.CancelledError_("stopped")
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def close_mine(self) -> None:
        """The connection of this thread."""
        if (connection := getattr(self._mine, "connection", None)) is not None:
            connection.close()
            self._mine.connection = None

    def _asked(self, shard: int, again: bool) -> bytes:
        connection = getattr(self._mine, "connection", None)
        if connection is None:
            path = self._socket_path()
            connection, answer = greeted(path, _CONNECT_S, frames.ROLE_MOUNT)
            self._mine.connection = connection
            if not self._is_told(path, connection):
                raise errors.UnavailableError(f"the node at {path} was started again, and has not been told yet")
            if not isinstance(frames.decode(answer), frames.Welcome):
                raise errors.ProtocolError("no WELCOME from the node: is it older than this tfquiver? restart it")
            connection.settimeout(_ANSWER_S)
        self._mine.number = number = (getattr(self._mine, "number", 0) + 1) & 0xFFFFFFFF
        hash = self._digest.hashes[shard].tobytes()
        connection.send(frames.encode(frames.Get(number, self._digest.digest_id, shard, hash, again)))
        frame, descriptors = _received(connection)
        try:
            if isinstance(frame, frames.Failed):
                raise errors.from_number(frame.code, frame.message)
            length_bytes = int(self._digest.lengths[shard])
            is_it = isinstance(frame, frames.Got) and frame.request == number and frame.length_bytes == length_bytes
            if not isinstance(frame, frames.Got) or not is_it or len(descriptors) != 1:
                raise errors.ProtocolError(f"{frame} came for GET {number}")
            return _read(descriptors[0], frame.offset, length_bytes)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _received(connection: socket.socket) -> tuple[frames.Frame, Sequence[int]]:
    message, control, _, _ = connection.recvmsg(*frames_received.HOW)
    return frames_received.decoded(message, control)


def _read(descriptor: int, offset: int, length_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < length_bytes:
        some = os.pread(descriptor, length_bytes - len(data), offset + len(data))
        if not some:
            raise errors.ProtocolError(f"a descriptor ended after {len(data)} of {length_bytes} bytes")
        data += some
    return bytes(data)
