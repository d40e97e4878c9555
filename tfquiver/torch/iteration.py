"""What a DataLoader iterates over in one worker: one reader's part of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tfquiver import errors
from tfquiver.reader import native
from tfquiver.reader.batch import Batch
from tfquiver.reader.epoch import Epoch
from tfquiver.reader.native import Opening
from tfquiver.reader.records import Records
from tfquiver.reader.share import Share
from tfquiver.torch import participants, positions
from tfquiver.torch.positions import Position
from tfquiver.torch.resuming import Resumed


class Iteration(Iterator[Any]):
    """One reader of `readers`. Nothing is opened before the first element is asked for, so that a state may be loaded.

    Args:
      share: of `readers` with a share each that is settled beforehand; None: they share a session, and read in it what
        they ask for.
      name: of the iteration: by it its readers find one another.
      went_on: told the number of the epoch that a loaded state is of.
      element: what a batch of records becomes.
    """

    def __init__(
        self, records: Records, reader: int, readers: int, share: Share | None, name: str, epoch: int,
        went_on: Callable[[int], None], element: Callable[[Batch], Any],
    ) -> None:  # fmt: skip
        self._records, self._reader, self._readers, self._name = records, reader, readers, name
        self._went_on, self._element = went_on, element
        self._loaded = False
        self._from = Position(reader, readers, records.digest_id.hex(), epoch)
        if share is not None:
            self._from = replace(self._from, part=share.reader, parts=share.readers)
        self._part: Epoch | None = None
        self._left = False  # the current part is what an earlier iterator had begun
        self._own = b""  # of this reader before the current part
        self._resumed: Resumed | None = None
        self._ended = False

    def __next__(self) -> Any:
        while not self._ended:
            if self._part is None:
                if self._from.parts and self._from.part >= self._records.num_shards:
                    self._ended = True  # that share is empty
                    break
                self._part = Epoch(self._first())
            for batch in self._part:
                return self._element(batch)
            self._go_on(self._part)
        raise StopIteration

    def close(self) -> None:
        """Gives back at once what has not been read."""
        self._ended = True
        if self._part is not None:
            self._part.close()

    def state_dict(self) -> dict[str, Any]:
        """Where this reader is, behind the last element: for `load_state_dict` of the same reader, kilobytes.

        Of a stream it says nothing: StatefulDataLoader always asks, and nobody need ever load it.

        Raises InvalidArgumentError: Ctrl-C has interrupted an element.
        """
        if self._records.stream:
            return {"stream": True}
        if self._part is None:
            return replace(self._from, ended=self._from.ended or self._ended).state_dict()
        here = b"" if self._ended else self._part.state()
        return replace(self._from, before=self._own, here=here, left=self._left, ended=self._ended).state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on there. Before the first element.

        Raises InvalidArgumentError: no such state, of other data, or of another reader or number of readers.
        """
        if self._part is not None:
            raise errors.InvalidArgumentError("load_state_dict: this iterator has begun; load into a new one")
        if self._records.stream:
            raise errors.InvalidArgumentError("stream=: an epoch that others read, too, cannot be gone on with later")
        position = positions.read(state)
        positions.check(position, self._reader, self._readers, self._records.digest_id.hex(), self._records.num_shards)
        if position.here:
            native.touched(position.here, self._records.digest_id)  # what is damaged is said now
        alone = self._readers == 1 or position.parts > 0
        if not alone and self._records.options.deterministic:
            raise errors.InvalidArgumentError(
                "load_state_dict: the order of Deterministic is kept by one reader only: one rank, at most one worker"
            )
        self._from, self._loaded = position, True
        self._ended = position.ended and alone
        self._went_on(position.epoch)

    # Inside.

    def _first(self) -> Opening:
        """What to read first."""
        position, opening, share = self._from, self._opening(), self._from.share
        if share is not None:
            return replace(opening, position=position.here or self._records.beginning(share, position.epoch))
        if not self._loaded:
            return opening
        if self._readers == 1:
            return replace(opening, position=position.here or None)
        self._resumed = Resumed(self._records, self._name, self._readers)
        self._own = position.before
        if position.here and not position.left:
            self._own = positions.joined(self._own, native.touched(position.here, self._records.digest_id)[0])
        self._resumed.say(self._own, opening)
        self._left = True
        return self._resumed.left(opening, position.here)

    def _opening(self) -> Opening:
        opening = replace(self._records.opening(), epoch=self._from.epoch)
        if self._from.parts or (self._readers == 1 and not self._records.stream):
            return opening
        records, of_stream = self._records, self._records.stream
        told = participants.within_its_part(opening.options, records.num_bytes, self._readers, of_stream)
        return replace(opening, options=told, provider_id=f"{self._name}:0", adopts=of_stream, in_turn=True)

    def _go_on(self, part: Epoch) -> None:
        """That part is over."""
        over = part.state()
        part.close()
        if self._resumed is not None and self._left:
            self._resumed.await_all()
            self._left = False
            self._part = Epoch(self._resumed.shared(self._opening()))
            return
        self._ended = True
        if self._readers > 1 and not self._from.parts:
            self._own = positions.joined(self._own, native.touched(over, self._records.digest_id)[0])
