"""Makes the batches of a pass, in a thread, where the node says that nobody else does."""

from __future__ import annotations

import contextlib
import threading

from absl import logging

from tfquiver import errors
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.messages_and_binary_formats import stream_frames
from tfquiver.tensorflow_client.shared_batches import packing
from tfquiver.tensorflow_client.shared_batches.line import StreamLine, refuse
from tfquiver.tensorflow_client.shared_batches.memory import read_all, sealed
from tfquiver.tensorflow_client.shared_batches.pipeline import Made
from tfquiver.tensorflow_client.shared_batches.shared import Shared

_PING_S = 3.0
_FIRST_EVERY, _MOST_EVERY = 8, 4096  # batches from one checkpoint to the next
_CHECKPOINT_SHARE = 50  # of the bytes of batches, one part in so many
MOST_CHECKPOINT_BYTES = 16 << 20


class Maker:
    """Begins at once. `settled`: it is known whether this one makes them. `error`: why its pipeline failed."""

    def __init__(self, shared: Shared, pass_: int) -> None:
        self._shared, self._pass = shared, pass_
        self.settled = threading.Event()
        self.error: Exception | None = None
        self._line: StreamLine | None = None
        self._stopped = False
        self._room = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"tfquiver stream {shared.name}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
            if self._line is not None:
                self._line.stop()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    # Its thread.

    def _run(self) -> None:
        watching: threading.Thread | None = None
        try:
            line = self._shared.connect(self._pass, makes=True)
            with self._changed:
                self._line = line
                if self._stopped:
                    return
            begun = self._ask(line)
            self.settled.set()
            if begun is not None:
                watching = threading.Thread(target=self._watch, args=(line,), name="tfquiver stream", daemon=True)
                watching.start()
                self._make(line, *begun)
        except (OSError, errors.ProtocolError, errors.UnavailableError) as error:
            logging.info("stream %r: no longer made here: %s", self._shared.name, error)
        except Exception as error:  # noqa: BLE001 - whatever a user's pipeline raises: its trainer is told
            if not self._stopped:
                self.error = error
        finally:
            self.stop()
            if watching is not None:
                watching.join()
            if self._line is not None:
                self._line.close()
            self.settled.set()

    def _ask(self, line: StreamLine) -> tuple[Made, int, int] | None:
        """The pipeline, how many batches are before it, and which is the first that is new. None: another has it."""
        checkpoint, before = b"", 0
        while True:
            frame, fd = line.receive()
            if isinstance(frame, stream_frames.Checkpoint) and fd >= 0:
                checkpoint, before = read_all(fd, frame.length_bytes), frame.batches
            elif isinstance(frame, stream_frames.Make):
                break
            else:
                refuse(frame, fd)
        if not frame.granted:
            return None
        line.is_patient()
        pipeline = self._shared.pipeline
        made = pipeline.restored(self._pass, checkpoint) if checkpoint else pipeline.begin(self._pass)
        return made, before, frame.index

    def _make(self, line: StreamLine, made: Made, index: int, first: int) -> None:
        every, since_bytes, last = _FIRST_EVERY, 0, index
        while self._may_make(index):
            batch = made.next()
            if batch is None:
                line.send(stream_frames.Over(index))
                return
            parts = [packing.header(batch), *batch]
            size_bytes = sum(map(len, parts))
            publish = stream_frames.Publish(index, size_bytes, packing.crc32(parts))
            if index < first:
                line.send(publish)
            else:
                with sealed(parts) as fd:
                    line.send(publish, fd)
            index += 1
            since_bytes += size_bytes
            if index == 1 or index - last >= every:
                saved = made.checkpoint()
                if saved is not None and len(saved) <= MOST_CHECKPOINT_BYTES:
                    with sealed([saved]) as fd:
                        line.send(stream_frames.Checkpoint(index, len(saved)), fd)
                if saved is None or len(saved) * _CHECKPOINT_SHARE > since_bytes:
                    every = min(2 * every, _MOST_EVERY)
                since_bytes, last = 0, index

    def _may_make(self, index: int) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or index < self._room)
            return not self._stopped

    # The thread beside it, which hears the node while the pipeline works.

    def _watch(self, line: StreamLine) -> None:
        pinging = threading.Thread(target=self._ping, args=(line,), name="tfquiver stream", daemon=True)
        pinging.start()
        try:
            while True:
                frame, fd = line.receive()
                if not isinstance(frame, stream_frames.Room):
                    refuse(frame, fd)
                with self._changed:
                    self._room = max(self._room, frame.batches)
                    self._changed.notify_all()
        except (OSError, errors.UnavailableError):  # also who was stopped for long, and others have gone on
            pass
        except errors.TfquiverError as error:
            self.error = error
        finally:
            self.stop()
            pinging.join()

    def _ping(self, line: StreamLine) -> None:
        with contextlib.suppress(OSError):
            while True:
                with self._changed:
                    if self._changed.wait_for(lambda: self._stopped, _PING_S):
                        return
                line.send(frames.Ping())
