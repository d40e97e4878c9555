"""What Grain iterates over: one reader's share of one epoch after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import grain

from tfquiver import errors
from tfquiver.grain import state
from tfquiver.reader.batch import Batch
from tfquiver.reader.epoch import Epoch
from tfquiver.reader.native import Opening
from tfquiver.reader.records import Records
from tfquiver.reader.share import Share
from tfquiver.sizes_durations_amounts.amounts import many

_MOST_EMPTY = 1000  # epochs in a row: who repeats for ever would wait for ever for an element, and say nothing


class QuiverIterator(grain.DatasetIterator[Any]):
    """Nothing is opened before the first element is asked for: Grain makes iterators only to ask for their state.

    Args:
      element: what a batch of records becomes.
    """

    # Of the class: at exit Grain closes iterators when this module's own names have gone.
    _finalizing = staticmethod(sys.is_finalizing)

    def __init__(self, records: Records, share: Share, element: Callable[[Batch], Any]) -> None:
        super().__init__()
        self._records, self._share, self._element = records, share, element
        self._digest = records.digest_id.hex()
        self._from = state.State(share.reader, share.readers, self._digest, 0)
        self._epoch: Epoch | None = None
        self._ended = self._reading = False
        self._empty = 0  # epochs in a row without an element, or the one that has just ended
        self._lost: errors.InvalidArgumentError | None = None  # why nobody knows where this was when it was closed

    def __next__(self) -> Any:
        self._assert_not_closed()
        if not self._ended and self._share.reader < self._records.num_shards:
            epoch = self._epoch
            if epoch is None:
                epoch = self._epoch = Epoch(self._opening())
            self._reading = True
            try:
                batch = next(epoch, None)
            finally:
                self._reading = False
            if batch is not None:
                self._empty = 0
                return self._element(batch)
        if not self._ended:
            self._ended = True
            self._empty += 1
            if self._empty > _MOST_EMPTY:
                raise errors.InvalidArgumentError(
                    f"{self} had no element in {_MOST_EMPTY} epochs: of {many(self._records.num_shards, 'shard')} it "
                    "reads every one of its number, and its own are fewer than a batch, or none; read with fewer "
                    "processes and workers, or cut smaller shards (first_use=)"
                )
        raise StopIteration

    def get_state(self) -> dict[str, Any]:
        """Where this is, behind the last element, also when it is closed: kilobytes.

        Raises InvalidArgumentError: Ctrl-C has interrupted an element, or it was closed while one was waited for.
        """
        if self._lost is not None:
            raise self._lost
        epoch = self._epoch
        if epoch is None:
            return self._from.plain()
        return state.written(self._share, self._digest, self._from.epoch, epoch.state())

    def set_state(self, value: dict[str, Any]) -> None:
        """Goes on there. Set to its beginning when it has ended, as `repeat` does, it begins the next epoch.

        Raises InvalidArgumentError: no such state, of other data, or of another reader or number of readers.
        """
        found = state.read(value, self._share, self._digest)
        if self._ended and not found.here:
            found = replace(found, epoch=self._from.epoch + 1)
        self._leave()
        self._from, self._ended, self._lost = found, False, None

    def close(self) -> None:
        """Gives back at once what has not been read. From any thread."""
        if not self._closed and not self._finalizing():
            self._note_where()
        self._end()

    def __del__(self) -> None:
        """Nobody can ask any more where it was, as `close` would: in a garbage collection, or at exit."""
        self._end()

    def __str__(self) -> str:
        return f"QuiverIterator(reader {self._share.reader} of {self._share.readers})"

    # Inside.

    def _end(self) -> None:
        super().close()
        self._leave()

    def _note_where(self) -> None:
        if self._reading:  # who waits for an element may wait for long
            self._lost = errors.InvalidArgumentError("this iterator was closed while an element was waited for")
            return
        try:
            self._from = state.read(self.get_state(), self._share, self._digest)
        except errors.InvalidArgumentError as error:
            self._lost = error
        except errors.CancelledError_ as error:  # its reader is gone, as at exit
            self._lost = errors.InvalidArgumentError(str(error))

    def _opening(self) -> Opening:
        opening = replace(self._records.opening(), epoch=self._from.epoch)
        position = self._from.position()
        if position is None and self._share.readers > 1:
            position = self._records.beginning(self._share, self._from.epoch)
        return replace(opening, position=position)

    def _leave(self) -> None:
        left, self._epoch = self._epoch, None
        if left is not None:
            left.close()
