"""What a reader that comes again says it holds, before it has said of which data set (pure)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from tfquiver.errors import ProtocolError

MAX_HELD = 1 << 20  # no reader reads so far ahead


class HeldShards:
    """Four bytes a shard, and no more than a data set can have: nothing else is known of a reader yet."""

    def __init__(self) -> None:
        self._shards = array("I")

    def add(self, shards: Sequence[int]) -> None:
        """Of one HELD frame. Raises ProtocolError, and takes nothing of it then."""
        if len(self._shards) + len(shards) > MAX_HELD:
            raise ProtocolError(f"HELD frames with more than {MAX_HELD} shards")
        self._shards.extend(shards)

    def take(self, of_shards: int) -> Sequence[int]:
        """All of them, now that it is known how many the data set has; none are left. A reader holds each once.

        Raises ProtocolError.
        """
        held, self._shards = self._shards, array("I")
        if len(held) > of_shards:
            raise ProtocolError(f"HELD frames with more shards than the data set's {of_shards}")
        if held and (last := max(held)) >= of_shards:
            raise ProtocolError(f"HELD frame: shard {last}: the data set has {of_shards}")
        return held
