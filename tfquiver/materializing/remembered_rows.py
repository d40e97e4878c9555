"""Parts of shards computed again, which are asked for one after the other: each row is computed once for all of them.

A row stands where it was left, behind the last part that was asked for, and goes on from there; parts that it has gone
by are kept as long as there is room. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tfquiver.materializing.elements_as_records.shard_cut import MadeShard

MOST_STANDING = 4  # of different readers, of one row or of several
MOST_BYTES = 64 << 20  # of parts that somebody else may ask for yet


class _Standing:
    def __init__(self, row: int, parts: Iterator[MadeShard]) -> None:
        self.row, self.parts = row, parts
        self.gone_by = 0


class RememberedRows:
    """Args:
    make: the parts of a row, in order, made as they are taken.
    """

    def __init__(self, make: Callable[[int], Iterator[MadeShard]]) -> None:
        self._make = make
        self._standing: list[_Standing] = []  # the last that was used last
        self._kept: dict[tuple[int, int], MadeShard] = {}  # the oldest first
        self._kept_bytes = 0

    @property
    def kept_bytes(self) -> int:
        return self._kept_bytes

    def part(self, row: int, part: int) -> MadeShard | None:
        """None: the row has fewer. Raises what making does; it begins anew then."""
        if (kept := self._kept.get((row, part))) is not None:
            return kept
        nearest = max(
            (one for one in self._standing if one.row == row and one.gone_by <= part),
            key=lambda one: one.gone_by,
            default=None,
        )
        if nearest is not None:
            self._standing.remove(nearest)
        at = nearest or _Standing(row, self._make(row))
        while (made := next(at.parts, None)) is not None:
            self._keep((row, at.gone_by), made)
            at.gone_by += 1
            if at.gone_by > part:
                self._standing = [*self._standing, at][-MOST_STANDING:]
                return made
        return None

    def _keep(self, place: tuple[int, int], made: MadeShard) -> None:
        if (before := self._kept.pop(place, None)) is not None:
            self._kept_bytes -= len(before.data)
        self._kept[place] = made
        self._kept_bytes += len(made.data)
        while self._kept_bytes > MOST_BYTES and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._kept_bytes -= len(self._kept.pop(oldest).data)
