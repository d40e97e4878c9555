"""What each session of a board has pending of some chunks together, kept up as either changes. Pure.

To add it up anew takes as many steps as there are sessions, times chunks: of a thousand sessions and thousands of
chunks 10 ms, at each decision.
"""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt


class PendingOf:
    """`rows`, `moved`, `changed`: the board says so. Rows are those of its `pending`."""

    def __init__(self, pending: npt.NDArray[np.int64]) -> None:
        """Of no chunks. `pending`: shape [rows, chunks], with room for more rows than there are."""
        self._chunks = frozenset[int]()
        self._bytes, self._view = array("q"), np.zeros(0, np.int64)
        self.rows(pending)

    def of(self, chunks: frozenset[int], sessions: int) -> npt.NDArray[np.int64]:
        """Of these chunks from now on: shape [sessions], of the first rows. Not to be kept or changed."""
        if chunks is not self._chunks:  # to compare thousands takes longer than all else
            for some, sign in ((chunks - self._chunks, 1), (self._chunks - chunks, -1)):
                if some:
                    self._view[:sessions] += sign * self._pending[:sessions, list(some)].sum(axis=1)
            self._chunks = chunks
        return self._view[:sessions]

    def rows(self, pending: npt.NDArray[np.int64]) -> None:
        """There is room for more rows now."""
        self._pending = pending
        self._bytes = array("q", bytes(8 * len(pending)))
        self._view = np.frombuffer(self._bytes, np.int64)
        self._view += pending[:, list(self._chunks)].sum(axis=1)

    def anew(self, row: int) -> None:
        """That row is another one's, or nobody's."""
        self._bytes[row] = int(self._pending[row, list(self._chunks)].sum())

    def changed(self, row: int, chunk: int, by_bytes: int) -> None:
        if chunk in self._chunks:
            self._bytes[row] += by_bytes
