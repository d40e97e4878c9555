"""What a read of the node's socket has brought: a frame with its descriptors, or an error, and then none stays open."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfquiver import errors
from tfquiver.messages_and_binary_formats import frames_received
from tfquiver.messages_and_binary_formats import reader_frames as frames

HELLO = frames.Hello(frames.ROLE_STREAM, 7, "")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    node, client = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with node, client:
        yield node, client


def _came(
    ends: tuple[socket.socket, socket.socket], message: bytes, files: int
) -> tuple[bytes, list[tuple[int, int, bytes]]]:
    node, client = ends
    with Path(os.devnull).open("rb") as file:
        socket.send_fds(node, [message], [file.fileno()] * files)
    return client.recvmsg(*frames_received.HOW)[:2]


def _open() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def test_a_frame_and_its_descriptor(ends: tuple[socket.socket, socket.socket]) -> None:
    frame, fd = frames_received.with_one_at_most(*_came(ends, frames.encode(HELLO), 1))
    assert frame == HELLO and os.read(fd, 1) == b""
    os.close(fd)
    assert frames_received.with_one_at_most(*_came(ends, frames.encode(HELLO), 0)) == (HELLO, -1)


@pytest.mark.parametrize(("message", "files"), [(frames.encode(HELLO), 2), (b"no frame", 1)])
def test_nothing_stays_open_of_what_cannot_be_right(
    ends: tuple[socket.socket, socket.socket], message: bytes, files: int
) -> None:
    before = _open()
    with pytest.raises(errors.ProtocolError):
        frames_received.with_one_at_most(*_came(ends, message, files))
    assert _open() == before


def test_an_end_is_a_connection_that_was_closed(ends: tuple[socket.socket, socket.socket]) -> None:
    node, client = ends
    node.close()
    with pytest.raises(ConnectionResetError, match="closed the connection"):
        frames_received.decoded(*client.recvmsg(*frames_received.HOW)[:2])
