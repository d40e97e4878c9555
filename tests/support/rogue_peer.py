"""A server that speaks the data port and answers GETs with whatever a test wants, over real TCP."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType

import google_crc32c

from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.service.node.connections_between_nodes import data_frames as frames
from tfquiver.service.node.connections_between_nodes import peer_proof
from tfquiver.service.node.disk import entry

Answer = Callable[[int, bytes], tuple[entry.Header, bytes]]
"""(shard, hash) -> what the item says of its body, and the body."""


def raw_body(body: bytes) -> tuple[entry.Header, bytes]:
    """With its own lengths and checksums."""
    crc32c = google_crc32c.value(body)
    return entry.Header(entry.RAW, len(body), len(body), crc32c, crc32c, bytes(32)), body


class RoguePeer:
    """Use as a context manager.

    Args:
      send: how bodies go out.
      says: the node id of its WELCOME, if another.
      token: what it proves to hold.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        node_id: str = "rogue",
        says: str = "",
        token: str = "",
        send: Callable[[socket.socket, bytes], None] = socket.socket.sendall,
    ) -> None:
        self._answer, self._node_id, self._says, self._token, self._send = answer, node_id, says, token, send
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.asked: list[int] = []
        self.told_bad: list[bytes] = []
        self.connections = 0

    @property
    def member(self) -> types_pb2.NodeInfo:
        address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        return types_pb2.NodeInfo(node_id=self._node_id, data_address=address, quota_bytes=1 << 50)

    def __enter__(self) -> RoguePeer:
        self._start(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for sock in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(20)
        for sock in (self._listener, *self._open):
            sock.close()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.connections += 1
                self._open.append(sock)
                self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            hello = self._hear(sock)
            assert isinstance(hello, frames.Hello)
            shown = peer_proof.proof(self._token, hello.nonce, self._says or self._node_id)
            sock.sendall(frames.encode(frames.Welcome(self._says or self._node_id, shown)))
            while True:
                frame = self._hear(sock)
                if isinstance(frame, frames.Bad):
                    self.told_bad.append(frame.hash)
                if isinstance(frame, frames.Get | frames.GetWithin):
                    for shard, hash in frame.wants:
                        self.asked.append(shard)
                        header, body = self._answer(shard, hash)
                        sock.sendall(frames.encode(frames.Item(frame.request, shard, frames.HERE, header, "")))
                        self._send(sock, body)

    def _hear(self, sock: socket.socket) -> frames.Frame:
        cls, length = frames.decode_header(_exactly(sock, frames.HEADER_BYTES))
        return frames.decode_payload(cls, _exactly(sock, length))


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += (piece := sock.recv(size - len(data)))
        if not piece:
            raise EOFError
    return data
