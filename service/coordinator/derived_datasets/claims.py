"""Who computes which rows of a build: each by one who has said so lately, and none for ever. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

CLAIM_S = 30.0  # who computes says so again within this time
MOST_CLAIM_S = 900.0  # however often they say so: a function that hangs keeps its row from nobody
MOST_HELD = 256  # by one claimer
MOST_CLAIMED = 1 << 16  # of one build
_LEAST_ENDS = 1 << 10  # more are only kept where there are as many claims


@dataclass(slots=True)
class _Claim:
    claimer: str
    first_s: float
    until_s: float


class Claims:
    """Of rows 0 to `rows` - 1; given out in that order, so that neighbours are read together.

    What is claimed is known here alone: after a restart everything that is not done is free again, and a row that two
    compute is reported twice, which does no harm.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._next = 0
        self._back: list[int] = []  # heap
        self._held: dict[int, _Claim] = {}
        self._of: dict[str, set[int]] = {}
        # When claims end, by heap; some are over by then, and some go on: thousands wait for a row, and ask for the
        # next end each time.
        self._ends: list[tuple[float, int]] = []

    def give(self, claimer: str, most: int, done: bytearray, now_s: float) -> list[int]:
        """At most so many rows, which are not `done` (one byte a row) and which nobody computes."""
        room = min(most, MOST_HELD - len(self._of.get(claimer, ())), MOST_CLAIMED - len(self._held))
        given: list[int] = []
        while len(given) < room and (row := self._free(done, now_s)) is not None:
            self._held[row] = _Claim(claimer, now_s, now_s + CLAIM_S)
            heapq.heappush(self._ends, (now_s + CLAIM_S, row))
            self._of.setdefault(claimer, set()).add(row)
            given.append(row)
        if len(self._ends) > _LEAST_ENDS + 2 * len(self._held):
            self._ends = [(claim.until_s, row) for row, claim in self._held.items()]
            heapq.heapify(self._ends)
        return given

    def renew(self, claimer: str, rows: Iterable[int], now_s: float) -> None:
        """Those of another by now are left to them."""
        for row in rows:
            claim = self._held.get(row)
            if claim is not None and claim.claimer == claimer:
                claim.until_s = min(now_s + CLAIM_S, claim.first_s + MOST_CLAIM_S)

    def give_back(self, claimer: str, rows: Iterable[int]) -> None:
        for row in rows:
            if (claim := self._held.get(row)) is not None and claim.claimer == claimer:
                self._drop(row)
                heapq.heappush(self._back, row)

    def over(self, row: int) -> None:
        """It is done, whoever did it."""
        self._drop(row)

    def next_s(self) -> float | None:
        """When the next claim ends if its claimer says nothing; None: there is none."""
        while self._ends:
            ends_s, row = self._ends[0]
            claim = self._held.get(row)
            if claim is None:
                heapq.heappop(self._ends)
            elif claim.until_s == ends_s:
                return ends_s
            else:  # it was said again since
                heapq.heapreplace(self._ends, (claim.until_s, row))
        return None

    def _free(self, done: bytearray, now_s: float) -> int | None:
        while self._back:
            if not done[row := heapq.heappop(self._back)]:
                return row
        while self._next < self._rows:
            row, self._next = self._next, self._next + 1
            if not done[row] and row not in self._held:
                return row
        while (ends_s := self.next_s()) is not None and ends_s <= now_s:
            row = self._ends[0][1]
            self._drop(row)
            heapq.heappush(self._back, row)
        return heapq.heappop(self._back) if self._back else None

    def _drop(self, row: int) -> None:
        if (claim := self._held.pop(row, None)) is not None:
            mine = self._of[claim.claimer]
            mine.discard(row)
            if not mine:
                del self._of[claim.claimer]
