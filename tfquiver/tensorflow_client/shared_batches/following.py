"""One trainer's pass over a stream: one batch after the other, from the window, or made again where it has gone."""

from __future__ import annotations

import os
import time

from tfquiver import errors
from tfquiver.socket_frames import reader_frames as frames
from tfquiver.socket_frames import stream_frames
from tfquiver.tensorflow_client.shared_batches import packing
from tfquiver.tensorflow_client.shared_batches.line import StreamLine, refuse
from tfquiver.tensorflow_client.shared_batches.maker import Maker
from tfquiver.tensorflow_client.shared_batches.memory import read_all
from tfquiver.tensorflow_client.shared_batches.pipeline import Made
from tfquiver.tensorflow_client.shared_batches.shared import Shared

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_SETTLES_S = 30.0  # whether this process makes the batches


class Following:
    """For one thread; `close` when it does not use it any more.

    Args:
      first: the batch that it begins with.
    """

    def __init__(self, shared: Shared, pass_: int, first: int) -> None:
        self._shared, self._pass, self._index = shared, pass_, first
        self._line: StreamLine | None = None
        self._made: packing.Sum | None = None  # of the batch before, where it was made here
        self._own: Made | None = None  # the pipeline, where this trainer makes its batches again
        self._own_index = 0
        self._checkpoint = -1  # memory
        self._checkpoint_bytes = self._checkpoint_batches = 0
        self._closed = False

    @property
    def index(self) -> int:
        """Of the next batch."""
        return self._index

    def next(self) -> list[bytes] | None:
        """The tensors of a batch, serialised. None: that was the last.

        Raises UnavailableError (the node stays away), InvalidArgumentError (the pipeline makes other batches than it
        did), CancelledError_ (the process ends), and what the pipeline raises.
        """
        pause_s, give_up_at = _FIRST_PAUSE_S, 0.0
        while True:
            try:
                frame, fd = self._ask()
                give_up_at = 0.0
            except OSError as error:
                self._disconnect()
                now = time.monotonic()
                give_up_at = give_up_at or now + self._shared.pipeline.patience_s
                if now >= give_up_at:
                    raise errors.UnavailableError(f"stream {self._shared.name!r}: the node is away: {error}") from error
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            if isinstance(frame, stream_frames.Over):
                return None
            if isinstance(frame, stream_frames.Unmade):
                if not self._have_it_made():
                    time.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            batch = self._given(frame, fd) if isinstance(frame, stream_frames.Batch) else None
            if batch is None and (batch := self._make()) is None:
                if self._is_over():
                    return None
                continue
            self._index += 1
            return batch

    def close(self) -> None:
        """Harmless when repeated."""
        self._closed = True
        self._disconnect()
        self._own = None
        self._drop_checkpoint()
        with self._shared.lock:
            maker = self._shared.makers.pop(self._pass, None)
        if maker is not None:
            maker.stop()

    # Inside.

    def _ask(self) -> tuple[frames.Frame, int]:
        """The node's answer. Raises OSError, and what the node says."""
        if self._shared.stopping:
            raise errors.CancelledError_(f"stream {self._shared.name!r}: the process ends")
        if self._line is None:
            self._line = self._shared.connect(self._pass, makes=False)
            if self._checkpoint >= 0:  # a node that was restarted knows none
                told = stream_frames.Checkpoint(self._checkpoint_batches, self._checkpoint_bytes)
                self._line.send(told, self._checkpoint)
        made = self._made
        self._line.send(
            stream_frames.Next(self._index, made is not None, *((made.crc32, made.length_bytes) if made else (0, 0)))
        )
        while True:
            frame, fd = self._line.receive()
            if isinstance(frame, stream_frames.Checkpoint) and fd >= 0:
                self._drop_checkpoint()
                self._checkpoint, self._checkpoint_bytes = fd, frame.length_bytes
                self._checkpoint_batches = frame.batches
                continue
            of_it = isinstance(frame, stream_frames.Batch | stream_frames.Behind) and frame.index == self._index
            if isinstance(frame, stream_frames.Over | stream_frames.Unmade) or of_it:
                return frame, fd
            refuse(frame, fd)

    def _given(self, batch: stream_frames.Batch, fd: int) -> list[bytes] | None:
        """None: it is damaged, as on a disk that fails."""
        if fd < 0:
            raise errors.ProtocolError("Batch frame: without a descriptor")
        try:
            packed = read_all(fd, batch.length_bytes, batch.offset)
        except OSError:
            return None
        if len(packed) != batch.length_bytes or packing.crc32([packed]) != batch.crc32:
            return None
        self._made = self._own = None
        return packing.tensors(packed)

    def _make(self) -> list[bytes] | None:
        """The batch, here and by this trainer alone, from the nearest checkpoint that it has. None: the pipeline ends
        before it."""
        if self._own is None or self._own_index > self._index:
            pipeline = self._shared.pipeline
            if self._checkpoint >= 0 and self._checkpoint_batches <= self._index:
                saved = read_all(os.dup(self._checkpoint), self._checkpoint_bytes)
                self._own, self._own_index = pipeline.restored(self._pass, saved), self._checkpoint_batches
            else:
                self._own, self._own_index = pipeline.begin(self._pass), 0
        while True:
            batch = self._own.next()
            if batch is None and self._own_index == self._index:
                return None
            if batch is None:
                raise errors.InvalidArgumentError(
                    f"stream {self._shared.name!r}: batch {self._index} was made, and the pipeline here ends after "
                    f"{self._own_index}: all who share a stream need the same pipeline"
                )
            self._own_index += 1
            if self._own_index > self._index:
                self._made = packing.sum_of(batch)
                return batch

    def _is_over(self) -> bool:
        """Whether the node agrees; False: it has gone meanwhile. Raises what it says."""
        assert self._line is not None
        try:
            self._line.send(stream_frames.Over(self._index))
            frame, fd = self._line.receive()
        except OSError:
            self._disconnect()
            return False
        if not isinstance(frame, stream_frames.Over):
            refuse(frame, fd)
        return True

    def _have_it_made(self) -> bool:
        """Whether this process makes them now. Raises what its pipeline has raised."""
        with self._shared.lock:
            maker = self._shared.makers.get(self._pass)
            if maker is None or not maker.alive:
                if maker is not None and maker.error is not None:
                    raise maker.error
                maker = self._shared.makers[self._pass] = Maker(self._shared, self._pass)
        maker.settled.wait(_SETTLES_S)
        if maker.error is not None:
            raise maker.error
        return maker.alive

    def _disconnect(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _drop_checkpoint(self) -> None:
        if self._checkpoint >= 0:
            os.close(self._checkpoint)
            self._checkpoint = -1
