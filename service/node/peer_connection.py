"""The asking end of one data port connection. Blocks; one thread at a time uses it."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import google_crc32c
import grpc

from tfquiver import errors
from tfquiver.service.node import data_frames as frames
from tfquiver.service.node.ready_shard import SEALED_MEMORY, ReadyShard
from tfquiver.service.node.store import codec, entry, memory

CONNECT_S = 3.0
SILENCE_S = 5.0  # a living peer says WORKING every second
ITEM_S = 150.0  # and answers sooner than that, if only to say that a shard cannot be had
_PIECE_BYTES = 2 << 20
_CODES = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class Want:
    shard: int
    hash: bytes
    length_bytes: int
    suspect: bool = False  # check its CRC here and not only where it is read


Outcome = ReadyShard | errors.TfquiverError


class PeerConnection:
    """Raises UnavailableError naming the peer when it cannot be reached, does not answer or breaks the protocol."""

    def __init__(self, peer: str, address: str, token: str, node_id: str) -> None:
        self._peer = f"node {peer} at {address}"
        host, _, port = address.rpartition(":")
        self._request = 0
        self._buffer = bytearray(_PIECE_BYTES)
        try:
            self._sock = socket.create_connection((host.strip("[]"), int(port)), CONNECT_S)
        except (OSError, ValueError) as error:
            raise errors.UnavailableError(f"{self._peer}: {error}") from error
        self._sock.settimeout(SILENCE_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with self._typed():
                self._send(frames.Hello(token, node_id))
                if not isinstance(self._receive(), frames.Welcome):
                    raise errors.ProtocolError("it does not say WELCOME")
        except BaseException:
            self._sock.close()
            raise

    def get(self, digest_id: bytes, wants: Sequence[Want], on_item: Callable[[Want, Outcome], None]) -> None:
        """Calls `on_item` once for each want, as they come. When this raises, the rest will not come."""
        with self._typed():
            self._request += 1
            open_wants = {want.shard: want for want in wants}
            if not open_wants:
                return
            self._send(
                frames.Get(digest_id, self._request, tuple((want.shard, want.hash) for want in open_wants.values()))
            )
            give_up_at = time.monotonic() + ITEM_S
            while open_wants:
                item = self._receive()
                if isinstance(item, frames.Working):
                    if time.monotonic() > give_up_at:
                        raise errors.DeadlineError(f"it has been working on a shard for {ITEM_S:g} s")
                    continue
                give_up_at = time.monotonic() + ITEM_S
                if not isinstance(item, frames.Item) or item.request != self._request or item.shard not in open_wants:
                    raise errors.ProtocolError(f"it sends {type(item).__name__} where an item was due")
                want = open_wants[item.shard]
                outcome = self._outcome(digest_id, want, item)
                del open_wants[item.shard]
                on_item(want, outcome)

    def put(self, header: entry.Header, stored: bytes) -> None:
        """Raises what the peer answers: ResourceExhaustedError, DataLossError and so on."""
        with self._typed():
            self._sock.sendall(frames.encode(frames.Put(header)))
            view = memoryview(stored)  # in pieces: the time limit is one for a whole sendall
            for at in range(0, len(view), _PIECE_BYTES):
                self._sock.sendall(view[at : at + _PIECE_BYTES])
            while isinstance(reply := self._receive(), frames.Working):
                pass
            if not isinstance(reply, frames.PutReply) or reply.hash != header.hash:
                raise errors.ProtocolError(f"it sends {type(reply).__name__} where the reply to a PUT was due")
        if reply.code:
            raise errors.from_code(_CODES.get(reply.code, grpc.StatusCode.UNKNOWN), f"{self._peer}: {reply.message}")

    def shut_down(self) -> None:
        """From any thread: whoever waits here is released."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()

    def _outcome(self, digest_id: bytes, want: Want, item: frames.Item) -> Outcome:
        if item.body is None:
            return errors.UnavailableError(f"{self._peer}: {item.message}")
        if item.body.raw_length != want.length_bytes:
            raise errors.ProtocolError(f"shard {want.shard} of {item.body.raw_length} bytes, not {want.length_bytes}")
        try:
            return self._receive_body(item.body, want.suspect)
        except errors.DataLossError as error:
            self._send(frames.Bad(digest_id, want.shard, want.hash))
            return error

    def _receive_body(self, body: entry.Header, check: bool) -> ReadyShard:
        if body.codec == entry.ZSTD or check:
            stored = bytearray(body.stored_length)
            self._fill(memoryview(stored))
            data = bytes(stored)
            if google_crc32c.value(data) != body.crc32c_stored:
                raise errors.DataLossError(f"{self._peer}: the body is damaged")
            raw = data if body.codec == entry.RAW else codec.decompress(data, body.raw_length, self._peer)
            return ReadyShard.from_bytes(raw, body.crc32c_raw, "peer")
        # The reader checks the CRC of what it is given; checking it here, too, would cost a tenth of the rate.
        fd = memory.create()
        try:
            left = body.raw_length
            while left:
                piece = memoryview(self._buffer)[: min(left, _PIECE_BYTES)]
                self._fill(piece)
                while piece:
                    piece = piece[os.write(fd, piece) :]
                left -= min(left, _PIECE_BYTES)
            memory.seal(fd)
        except BaseException:
            os.close(fd)
            raise
        return ReadyShard(SEALED_MEMORY, fd, 0, body.raw_length, body.crc32c_raw, "peer")

    def _send(self, frame: frames.Frame) -> None:
        self._sock.sendall(frames.encode(frame))

    def _receive(self) -> frames.Frame:
        header = bytearray(frames.HEADER_BYTES)
        self._fill(memoryview(header))
        cls, length = frames.decode_header(bytes(header))
        payload = bytearray(length)
        self._fill(memoryview(payload))
        frame = frames.decode_payload(cls, payload)
        if isinstance(frame, frames.Error):
            raise errors.from_code(_CODES.get(frame.code, grpc.StatusCode.UNKNOWN), frame.message)
        return frame

    def _fill(self, view: memoryview) -> None:
        while view:
            got = self._sock.recv_into(view)
            if not got:
                raise EOFError("it has closed the connection")
            view = view[got:]

    @contextlib.contextmanager
    def _typed(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            raise errors.UnavailableError(f"{self._peer}: silent for {SILENCE_S:g} s") from error
        except (OSError, EOFError) as error:
            raise errors.UnavailableError(f"{self._peer}: {error}") from error
        except errors.TfquiverError as error:
            raise errors.UnavailableError(f"{self._peer}: {error}") from error
