"""One trainer's connection to a stream: it follows a pass of it, or makes its batches."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os

from tfquiver import errors
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.messages_and_binary_formats import stream_frames
from tfquiver.service.node.shared_batches.one_pass import Sum
from tfquiver.service.node.shared_batches.streams import MOST_CHECKPOINT_BYTES, Stream, Streams
from tfquiver.service.node.unix_socket_clients.frame_socket import want_no_descriptors
from tfquiver.service.node.unix_socket_clients.shell import Shell

MAKER_SILENT_S = 20.0  # it says PING every few seconds, whatever its pipeline does
_MOST_MS = (1 << 32) - 1
_SEALED = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_numbers = itertools.count()


class StreamShell(Shell):
    """`process`: its number, as it says; `uid`: whose it is."""

    peer = "a trainer of a stream"

    def __init__(self, streams: Streams, uid: int, process: int) -> None:
        self._streams, self._uid, self.process = streams, uid, process
        self.number = next(_numbers)
        self.wants: int | None = None
        self.checkpoint = 0
        self._stream: Stream | None = None
        self._pass = 0
        self._silent: asyncio.TimerHandle | None = None

    def on_frame(self, frame: frames.Frame, descriptors: list[int]) -> None:
        if self._silent is not None:
            self._listen()
        try:
            if isinstance(frame, stream_frames.Publish | stream_frames.Checkpoint):
                self._take_memory(frame, _one_memory(frame, descriptors))
            elif isinstance(frame, frames.Ping) and self._stream is not None and self._silent is None:
                want_no_descriptors(frame, descriptors)
                waits_ms = int(1000 * self._streams.disk_waits_s())
                self.socket.send(frames.Pong(min(waits_ms, _MOST_MS)))  # makers, older ones, too, want no answer
            else:
                want_no_descriptors(frame, descriptors)
                super().on_frame(frame, [])
        except errors.ProtocolError:
            self._leave()
            raise
        except errors.TfquiverError as error:
            self._leave()
            self.socket.bid_farewell(frames.error(error, fatal=True))

    def take(self, frame: frames.Frame) -> bool:
        match frame:
            case stream_frames.Follow() if self._stream is None:
                self._follow(frame)
            case stream_frames.Next() if self._stream is not None and self.wants is None and self._silent is None:
                made = Sum(frame.crc32, frame.length_bytes) if frame.made else None
                self._stream.ask(self._pass, self, frame.index, made)
            case stream_frames.Over() if self._stream is not None:
                self._stream.finished(self._pass, self, frame.batches)
            case _:
                return False
        return True

    def on_gone(self) -> None:
        self._leave()

    # What the stream tells it.

    def give(self, index: int, sum: Sum, descriptor: int, offset: int, on_disk: bool) -> None:
        kind = frames.KIND_FILE if on_disk else frames.KIND_MEMORY
        self.socket.send(stream_frames.Batch(index, kind, offset, sum.length_bytes, sum.crc32), descriptor)

    def behind(self, index: int) -> None:
        self.socket.send(stream_frames.Behind(index))

    def unmade(self, index: int) -> None:
        self.socket.send(stream_frames.Unmade(index))

    def over(self, batches: int) -> None:
        self.socket.send(stream_frames.Over(batches))

    def take_checkpoint(self, batches: int, descriptor: int) -> None:
        self.socket.send(stream_frames.Checkpoint(batches, os.fstat(descriptor).st_size), descriptor)

    def dismiss(self) -> None:
        self.socket.bid_farewell(None)

    def room(self, batches: int) -> None:
        self.socket.send(stream_frames.Room(batches))

    # Inside.

    def _follow(self, follow: stream_frames.Follow) -> None:
        stream = self._streams.stream(
            self._uid, follow.stream, follow.likeness, follow.window_bytes, follow.spill_bytes
        )
        stream.enter(follow.pass_, self)
        self._stream, self._pass = stream, follow.pass_
        if follow.makes:
            first = stream.make(self._pass, self)
            self.socket.send(stream_frames.Make(first is not None, first or 0))
            if first is not None:
                stream.begun(self._pass)
                self._listen()

    def _take_memory(self, frame: stream_frames.Publish | stream_frames.Checkpoint, descriptor: int) -> None:
        if self._stream is None:
            _close(descriptor)
            raise errors.ProtocolError(f"{type(frame).__name__} frame: before FOLLOW")
        if isinstance(frame, stream_frames.Publish):
            sum = Sum(frame.crc32, frame.length_bytes)
            self._stream.made(self._pass, self, frame.index, sum, descriptor)
        elif descriptor < 0:
            raise errors.ProtocolError("Checkpoint frame: without its memory")
        else:
            self._stream.checkpoint(self._pass, self, frame.batches, descriptor)

    def _leave(self) -> None:
        """At once, though the connection ends when the peer has heard why."""
        if self._silent is not None:
            self._silent.cancel()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.leave(self._pass, self)

    def _listen(self) -> None:
        if self._silent is not None:
            self._silent.cancel()
        self._silent = asyncio.get_running_loop().call_later(MAKER_SILENT_S, self._too_silent)

    def _too_silent(self) -> None:
        silent = errors.UnavailableError(f"it has said nothing for {MAKER_SILENT_S:g} s: another makes the batches")
        self.socket.send(frames.error(silent, fatal=True))
        self.socket.close()


def _one_memory(frame: stream_frames.Publish | stream_frames.Checkpoint, descriptors: list[int]) -> int:
    """The descriptor that came with it; -1: none did. Raises ProtocolError: it is not memory of that size, sealed."""
    name, wrong = type(frame).__name__, ""
    if len(descriptors) > 1:
        wrong = f"{len(descriptors)} descriptors"
    elif isinstance(frame, stream_frames.Checkpoint) and frame.length_bytes > MOST_CHECKPOINT_BYTES:
        wrong = f"{frame.length_bytes} bytes, more than {MOST_CHECKPOINT_BYTES}"
    elif descriptors and fcntl.fcntl(descriptors[0], fcntl.F_GET_SEALS) & _SEALED != _SEALED:
        wrong = "memory that is not sealed"
    elif descriptors and os.fstat(descriptors[0]).st_size != frame.length_bytes:
        wrong = f"memory of another size than {frame.length_bytes}"
    if wrong:
        for descriptor in descriptors:
            os.close(descriptor)
        raise errors.ProtocolError(f"{name} frame: {wrong}")
    return descriptors[0] if descriptors else -1


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
