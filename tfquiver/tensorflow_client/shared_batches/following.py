"""One trainer's pass over a stream: one batch after the other, from the window, or made again where it has gone."""

from __future__ import annotations

import os
import time

from tfquiver import errors
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.messages_and_binary_formats import stream_frames
from tfquiver.tensorflow_client.shared_batches import packing
from tfquiver.tensorflow_client.shared_batches.line import HELLO_S, PING_S, SILENT_S, StreamLine, refuse
from tfquiver.tensorflow_client.shared_batches.maker import Maker
from tfquiver.tensorflow_client.shared_batches.memory import read_all
from tfquiver.tensorflow_client.shared_batches.pipeline import Made
from tfquiver.tensorflow_client.shared_batches.shared import Shared

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_SETTLES_S = 30.0  # whether this process makes the batches
_AT_ONCE_S = 0.0


class Following:
    """For one thread; `close` when it does not use it any more.

    Args:
      first: the batch that it begins with.
    """

    def __init__(self, shared: Shared, pass_: int, first: int) -> None:
        self._shared, self._pass, self._index = shared, pass_, first
        self._line: StreamLine | None = None
        self._asked: StreamLine | None = None  # the one that NEXT was said on last
        self._away_since = 0.0  # the node; 0: it is there
        self._waits_since = 0.0  # for this batch
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

        Raises UnavailableError (the node stays away, or hangs, or its disk), InvalidArgumentError (the pipeline makes
        other batches than it did), CancelledError_ (the process ends), and what the pipeline raises.
        """
        pause_s, self._waits_since = _FIRST_PAUSE_S, time.monotonic()
        while True:
            try:
                frame, fd = self._ask()
            except OSError as error:
                self._is_away(error)
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

    @property
    def _patience_s(self) -> float:
        return self._shared.pipeline.patience_s

    def _ask(self) -> tuple[frames.Frame, int]:
        """The node's answer. Raises OSError, and what the node says."""
        line = self._asked = self._connected()
        made = self._made
        line.send(
            stream_frames.Next(self._index, made is not None, *((made.crc32, made.length_bytes) if made else (0, 0)))
        )
        while True:
            if (heard := line.hear(PING_S)) is None:
                self._check_disk()
                continue
            frame, fd = heard
            self._away_since = 0.0
            if isinstance(frame, stream_frames.Checkpoint) and fd >= 0:
                self._drop_checkpoint()
                self._checkpoint, self._checkpoint_bytes = fd, frame.length_bytes
                self._checkpoint_batches = frame.batches
                continue
            of_it = isinstance(frame, stream_frames.Batch | stream_frames.Behind) and frame.index == self._index
            if isinstance(frame, stream_frames.Over | stream_frames.Unmade) or of_it:
                return frame, fd
            refuse(frame, fd)

    def _connected(self) -> StreamLine:
        """Raises OSError."""
        if self._shared.stopping:
            raise errors.CancelledError_(f"stream {self._shared.name!r}: the process ends")
        if self._line is None:
            left_s = self._patience_s - (time.monotonic() - self._away_since) if self._away_since else HELLO_S
            self._line = self._shared.connect(self._pass, makes=False, hello_s=max(1.0, min(HELLO_S, left_s)))
            if self._checkpoint >= 0:  # a node that was restarted knows none
                told = stream_frames.Checkpoint(self._checkpoint_batches, self._checkpoint_bytes)
                self._line.send(told, self._checkpoint)
        return self._line

    def _is_away(self, error: OSError) -> None:
        """Raises UnavailableError when it has been for too long."""
        self._disconnect()
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since >= self._patience_s:
            raise errors.UnavailableError(f"stream {self._shared.name!r}: the node is away: {error}") from error

    def _check_disk(self) -> None:
        """Raises UnavailableError. Who makes the batches, here or elsewhere, may wait for it."""
        waits_s = min(self._line.disk_waits_s if self._line else 0.0, time.monotonic() - self._waits_since)
        if waits_s >= max(self._patience_s, SILENT_S):
            raise errors.UnavailableError(
                f"stream {self._shared.name!r}: the node has waited for its disk for {waits_s:.0f} s, and this batch "
                "for it"
            )

    def _look_at_node(self) -> None:
        """Whether it is there, while its records are waited for. Raises UnavailableError, and what it says."""
        try:
            line = self._connected()
            heard = line.hear(_AT_ONCE_S)
        except OSError as error:
            self._is_away(error)
            return
        if heard is not None:
            refuse(*heard)
        if line.answers:
            self._away_since = 0.0
        self._check_disk()

    def _given(self, batch: stream_frames.Batch, fd: int) -> list[bytes] | None:
        """None: it is damaged, as on a disk that fails."""
        if fd < 0:
            raise errors.ProtocolError("Batch frame: without a descriptor")
        try:
            if batch.kind == frames.KIND_MEMORY:
                packed = read_all(fd, batch.length_bytes, batch.offset)
            else:
                packed = self._read_file(fd, batch)
        except OSError:
            return None
        if len(packed) != batch.length_bytes or packing.crc32([packed]) != batch.crc32:
            return None
        self._made = self._own = None
        return packing.tensors(packed)

    def _read_file(self, fd: int, batch: stream_frames.Batch) -> bytes:
        """Raises OSError."""
        give_up_at = time.monotonic() + SILENT_S

        def late() -> None:
            if time.monotonic() >= give_up_at:
                raise TimeoutError

        return self._shared.apart.done(lambda: read_all(fd, batch.length_bytes, batch.offset), late, PING_S)

    def _make(self) -> list[bytes] | None:
        """The batch, here and by this trainer alone, from the nearest checkpoint that it has. None: the pipeline ends
        before it."""
        return self._shared.apart.done(self._made_here, self._look_at_node, PING_S)

    def _made_here(self) -> list[bytes] | None:
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
        if (line := self._line) is None or line is not self._asked:
            return False
        try:
            line.send(stream_frames.Over(self._index))
            while (heard := line.hear(PING_S)) is None:
                pass
        except OSError:
            self._disconnect()
            return False
        if not isinstance(heard[0], stream_frames.Over):
            refuse(*heard)
        return True

    def _have_it_made(self) -> bool:
        """Whether this process makes them now. Raises what its pipeline has raised."""
        with self._shared.lock:
            maker = self._shared.makers.get(self._pass)
            if maker is None or not maker.alive:
                if maker is not None and maker.error is not None:
                    raise maker.error
                maker = self._shared.makers[self._pass] = Maker(self._shared, self._pass)
        give_up_at = time.monotonic() + _SETTLES_S
        while not maker.settled.wait(PING_S) and time.monotonic() < give_up_at:
            self._look_at_node()
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
