"""Which wants of a store go out as one request: those that follow one another in a file without a gap. Pure.

A want waits a moment for its neighbours, and as long as the store takes no more requests: they gather then, too.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
MOST_BYTES = 16 << 20
MOST_PARTS = 256
GATHER_S = 0.002


@dataclass(frozen=True, slots=True)
class Want(Generic[T]):
    """Bytes `offset` to `end` of a file. `what` is the asker's."""

    number: int
    file: Hashable
    offset: int
    end: int
    since_s: float
    what: T


class RangePlan(Generic[T]):
    """Not thread-safe. `now` is in seconds and never falls. The oldest want goes first, with those that touch it."""

    def __init__(self, most_bytes: int = MOST_BYTES, most_parts: int = MOST_PARTS, gather_s: float = GATHER_S) -> None:
        """
        Args:
          most_bytes, most_parts: of one request; a want that is longer goes alone.
          gather_s: how long a want waits for others.
        """
        self._most_bytes, self._most_parts, self._gather_s = most_bytes, most_parts, gather_s
        self._wants: dict[int, Want[T]] = {}  # by number, the oldest first
        self._from: dict[tuple[Hashable, int], dict[int, None]] = {}  # (file, offset): those that begin there
        self._until: dict[tuple[Hashable, int], dict[int, None]] = {}  # (file, end): those that end there
        self._count = 0

    def __len__(self) -> int:
        """Those that wait."""
        return len(self._wants)

    def want(self, file: Hashable, offset: int, length: int, now: float, what: T) -> int:
        """A number to withdraw it by. `file`: what is read in one go only with what is of the same."""
        if length <= 0:
            raise ValueError(f"a range of {length} bytes")
        self._count += 1
        want = self._wants[self._count] = Want(self._count, file, offset, offset + length, now, what)
        self._from.setdefault((file, want.offset), {})[want.number] = None
        self._until.setdefault((file, want.end), {})[want.number] = None
        return want.number

    def withdraw(self, number: int) -> bool:
        """False: it has gone out."""
        want = self._wants.get(number)
        if want is not None:
            self._take(want)
        return want is not None

    def next(self, now: float) -> list[Want[T]]:
        """Wants for one request, in the order of their bytes, each given out once; none: nothing may go out now."""
        oldest = next(iter(self._wants.values()), None)
        if oldest is None:
            return []
        run, whole = self._run(oldest)
        if not whole and now < oldest.since_s + self._gather_s:
            return []
        for want in run:
            self._take(want)
        return run

    def due_s(self) -> float | None:
        """When the oldest has waited long enough."""
        oldest = next(iter(self._wants.values()), None)
        return oldest.since_s + self._gather_s if oldest else None

    def _run(self, oldest: Want[T]) -> tuple[list[Want[T]], bool]:
        """Those that touch it; and whether no more would fit."""
        before: list[Want[T]] = []
        after = [oldest]
        first, last = oldest.offset, oldest.end
        while len(before) + len(after) < self._most_parts:
            if (found := self._first(self._from, oldest.file, last)) and found.end - first <= self._most_bytes:
                after.append(found)
                last = found.end
            elif (found := self._first(self._until, oldest.file, first)) and last - found.offset <= self._most_bytes:
                before.append(found)
                first = found.offset
            else:
                beyond = self._first(self._from, oldest.file, last) or self._first(self._until, oldest.file, first)
                return [*reversed(before), *after], beyond is not None or last - first >= self._most_bytes
        return [*reversed(before), *after], True

    def _first(self, index: dict[tuple[Hashable, int], dict[int, None]], file: Hashable, at: int) -> Want[T] | None:
        number = next(iter(index.get((file, at), ())), None)
        return None if number is None else self._wants[number]

    def _take(self, want: Want[T]) -> None:
        del self._wants[want.number]
        for index, at in ((self._from, want.offset), (self._until, want.end)):
            del index[want.file, at][want.number]
            if not index[want.file, at]:
                del index[want.file, at]
