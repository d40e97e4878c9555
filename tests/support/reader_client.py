"""A reader in plain Python: speaks the reader socket as the op does, for tests and benchmarks.

Blocking, one thread. Checks what it is given: no shard comes without credit, and bytes that do not have their CRC are
reported BAD and counted.
"""

from __future__ import annotations

import array
import os
import socket
import struct
import time
import uuid
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType

import google_crc32c

from tfquiver import errors
from tfquiver.messages_and_binary_formats import reader_frames as frames

_RECENT_ACKS = 256
_RECORD_HEADER_BYTES, _RECORD_FOOTER_BYTES = 12, 4


class ReaderGoneError(Exception):
    """The node closed the connection."""


class Connection:
    """Frames over one socket. Every wait ends after `timeout_s`."""

    def __init__(self, path: str | os.PathLike[str], timeout_s: float = 30.0) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(timeout_s)
        try:
            self.sock.connect(os.fspath(path))
        except OSError:
            self.sock.close()
            raise

    def send(self, frame: frames.Frame, descriptor: int = -1) -> None:
        try:
            if descriptor < 0:
                self.sock.send(frames.encode(frame))
            else:
                socket.send_fds(self.sock, [frames.encode(frame)], [descriptor])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ReaderGoneError(str(error)) from error

    def receive(self) -> tuple[frames.Frame, int]:
        """The next frame and its descriptor (-1: none), which is the caller's to close."""
        size = array.array("i").itemsize
        try:
            message, control, _, _ = self.sock.recvmsg(frames.MAX_FRAME_BYTES, socket.CMSG_SPACE(size))
        except ConnectionResetError as error:
            raise ReaderGoneError(str(error)) from error
        descriptors = array.array("i", b"".join(data for _, _, data in control))
        if not message:
            raise ReaderGoneError("end of file")
        return frames.decode(message), descriptors[0] if descriptors else -1

    def hello(self, role: int = frames.ROLE_READER, label: str = "") -> str:
        """Returns the node's id."""
        self.send(frames.Hello(role, os.getpid(), label))
        frame, _ = self.receive()
        assert isinstance(frame, frames.Welcome), frame
        return frame.node_id

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class ReaderClient:
    """One reader of one session.

    `shards()` yields (index, bytes) as they come; a shard is acknowledged when the next one is asked for, or later by
    `hold_back` shards. After END iteration ends; `close` says whether all was delivered.
    """

    def __init__(
        self,
        socket_path: str | os.PathLike[str],
        digest_id: bytes,
        *,
        session_id: str = "",
        session_key: str = "key",
        job: str = "job",
        label: str = "",
        reader_id: str = "",
        credit_bytes: int = 16 << 20,
        seed: int = 0,
        done: Iterable[int] = (),
        held: Iterable[int] = (),
        hold_back: int = 0,
        timeout_s: float = 30.0,
    ) -> None:
        self.path, self.digest_id, self.session_key, self.job, self.label = (
            socket_path,
            digest_id,
            session_key,
            job,
            label,
        )
        self.reader_id = reader_id or uuid.uuid4().hex
        self.session_id, self.seed, self.hold_back, self.timeout_s = session_id, seed, hold_back, timeout_s
        self.credit_bytes = credit_bytes
        self.owed_bytes = credit_bytes
        self.unacked: list[int] = list(held)
        self.told: list[frames.Error] = []
        self.dropped: list[int] = []
        self.shards_received = 0
        self.ended = False
        self.bad_shards = 0
        self._recent_acks: deque[int] = deque(maxlen=_RECENT_ACKS)
        self._asked_again: set[int] = set()
        self._done = bytes(done)
        self.connect()

    def connect(self) -> None:
        """Opens the session, again if need be: what is not acknowledged is held."""
        self.connection = Connection(self.path, self.timeout_s)
        self.shards_received = 0
        self.owed_bytes = self.credit_bytes
        self.connection.hello(label=self.label)
        # What was acknowledged just now may not have got through: it is held, and acknowledged again below.
        again, held = tuple(self._recent_acks), [*self.unacked, *self._recent_acks]
        for at in range(0, len(held), frames.MAX_INDEXES):
            self.connection.send(frames.Held(tuple(held[at : at + frames.MAX_INDEXES])))
        state = -1
        if self._done:
            state = os.memfd_create("done")
            os.write(state, zlib.compress(self._done))
        self.connection.send(
            frames.Open(
                self.session_id, self.session_key, self.digest_id, self.job, self.reader_id, self.credit_bytes,
                frames.Wish(seed=self.seed), state >= 0,
            ),
            state,
        )  # fmt: skip
        if state >= 0:
            os.close(state)
        opened = self._next_frame()[0]
        assert isinstance(opened, frames.Opened), opened
        self.session_id, self.epoch, self.num_shards = opened.session_id, opened.epoch, opened.shards
        if again:
            self.connection.send(frames.Ack(again))

    def reconnect(self, deadline_s: float = 30.0) -> None:
        """As the op does when its node went away: tries until it is there again."""
        self.connection.close()
        give_up_at = time.monotonic() + deadline_s
        while True:
            try:
                self.connect()
            except (OSError, ReaderGoneError):
                self.connection.close()
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.05)
            else:
                return

    def shards(self) -> Iterator[tuple[int, bytes]]:
        """Shard index and raw bytes of everything this reader is given, until END."""
        while (received := self.next_shard()) is not None:
            yield received
            self.emitted(received[0], len(received[1]))

    def records(self) -> Iterator[bytes]:
        for _, data in self.shards():
            yield from split_records(data)

    def next_shard(self) -> tuple[int, bytes] | None:
        """None at END."""
        if not self.unacked or len(self.unacked) <= self.hold_back:
            self.connection.send(frames.Draining(self.shards_received))
        while True:
            frame, descriptor = self._next_frame()
            if isinstance(frame, frames.Shard):
                try:
                    data = os.pread(descriptor, frame.length_bytes, frame.offset)
                finally:
                    os.close(descriptor)
                self.shards_received += 1
                if frame.shard in self._asked_again:
                    self._asked_again.discard(frame.shard)
                else:
                    assert self.owed_bytes > 0, "a shard came without credit"
                    self.owed_bytes -= frame.length_bytes
                if len(data) != frame.length_bytes or google_crc32c.value(data) != frame.crc32c:
                    self.bad_shards += 1
                    self._asked_again.add(frame.shard)
                    self.connection.send(frames.Bad(frame.shard))
                    continue
                self.unacked.append(frame.shard)
                return frame.shard, data
            if isinstance(frame, frames.End):
                self.ended = True
                return None
            raise AssertionError(f"not expected: {frame}")

    def emitted(self, shard: int, length_bytes: int) -> None:
        """The records of this shard are used up: gives credit back and acknowledges what is due."""
        self.owed_bytes += length_bytes
        self.connection.send(frames.Credit(length_bytes))
        due = self.unacked[: max(len(self.unacked) - self.hold_back, 0)]
        if due:
            self.connection.send(frames.Ack(tuple(due)))
            self._recent_acks.extend(due)
            del self.unacked[: len(due)]

    def close(self, complete: bool = True) -> None:
        """CLOSE, and waits until the node has hung up: by then the coordinator knows."""
        try:
            if complete and self.unacked:
                self.connection.send(frames.Ack(tuple(self.unacked)))
            self.connection.send(frames.Close(complete))
            while True:
                self.connection.receive()
        except ReaderGoneError:
            pass
        finally:
            self.connection.close()

    def _next_frame(self) -> tuple[frames.Frame, int]:
        while True:
            frame, descriptor = self.connection.receive()
            if isinstance(frame, frames.Error):
                self.told.append(frame)
                if frame.fatal:
                    raise errors.TfquiverError(f"{frame.code}: {frame.message}")
            elif isinstance(frame, frames.Dropped):
                self.dropped += frame.shards
                self.unacked = [shard for shard in self.unacked if shard not in frame.shards]
            else:
                return frame, descriptor


def split_records(data: bytes) -> Iterator[bytes]:
    """The payloads of a run of TFRecords (the shard's CRC has vouched for theirs)."""
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        yield data[at + _RECORD_HEADER_BYTES : at + _RECORD_HEADER_BYTES + length]
        at += _RECORD_HEADER_BYTES + length + _RECORD_FOOTER_BYTES
    assert at == len(data), "a shard ends inside a record"
