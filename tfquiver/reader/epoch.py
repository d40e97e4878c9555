"""One epoch, iterated: batches until its end, errors of ours, waits that Ctrl-C ends."""

from __future__ import annotations

from types import TracebackType

from absl import logging

from tfquiver import errors
from tfquiver.reader.batch import Batch
from tfquiver.reader.native import NativeReader, Opening

_SLICE_MS = 50  # signals are seen between waits of this length


class Epoch:
    """An iterator of `Batch`. Close it, or use it in a `with`, to give back at once what it has not read.

    Raises UnavailableError (the node stays away), StaleDigestError (a file changed), DataLossError (a file is damaged),
    each naming it, and CancelledError_ after `close`.
    """

    def __init__(self, opening: Opening, contiguous: bool = False) -> None:
        self._native = NativeReader(opening)
        self._contiguous = contiguous
        self._ended = False

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Batch:
        while not self._ended:
            try:
                batch = self._native.next(_SLICE_MS, self._contiguous)
            except TimeoutError:
                self._warn()
                continue
            except errors.TfquiverError:
                self._warn()
                raise
            if batch is not None:
                return batch
            self._ended = True
            self._warn()
        raise StopIteration

    def state(self) -> bytes:
        """Where it is, behind the last batch: kilobytes, no record content. `Records.epoch(state)` goes on there.

        Raises InvalidArgumentError where Ctrl-C has interrupted a batch: take that first.
        """
        try:
            return self._native.position()
        except errors.StaleDigestError as error:  # of its code
            raise errors.InvalidArgumentError(str(error)) from error

    def stop(self) -> None:
        """From any thread: who waits for a batch gets CancelledError_."""
        self._native.stop()

    def close(self) -> None:
        """From any thread, as `stop`."""
        self._native.close()

    def __enter__(self) -> Epoch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _warn(self) -> None:
        for said in self._native.warnings():
            logging.warning("%s", said)
