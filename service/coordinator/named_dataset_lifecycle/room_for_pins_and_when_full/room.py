"""What is to go so that a data set fits, where there is no room for it (--when_full). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tfquiver import errors
from tfquiver.sizes_durations_amounts.amounts import of_bytes

PARTIAL, MANUAL, DATASET_LRU = "partial", "manual", "dataset_lru"
WHEN_FULL = (PARTIAL, MANUAL, DATASET_LRU)
_SAID = 10


def known_of(seen: Sequence[str], unseen: int) -> str:
    """Names, and of those that whoever asks may not know how many they are; "": there are none."""
    others = [f"{unseen} that you may not see"] if unseen else []
    return " and ".join([part for part in (", ".join(seen), *others) if part])


class ToEvict:
    """Is shown the data sets that may go, neither pinned nor read, until `is_enough`: those used longest ago first.
    What each holds is not known before it is looked at, which takes a while.

    Args:
      wanted_bytes, free_bytes: with each copy that is to be kept, on the nodes that are to; `where` these are.
    """

    def __init__(self, when_full: str, name: str, wanted_bytes: int, free_bytes: int, where: str = "all nodes") -> None:
        self._evicts, self._name, self._where = when_full == DATASET_LRU, name, where
        self._wanted_bytes, self._free_bytes = wanted_bytes, free_bytes
        self._left_bytes = 0 if when_full == PARTIAL else max(0, wanted_bytes - free_bytes)
        self._shown: list[tuple[str, int]] = []
        self._unseen: set[str] = set()

    @property
    def is_enough(self) -> bool:
        return self._left_bytes <= 0 or (not self._evicts and len(self._shown) >= _SAID)

    def show(self, name: str, resident_bytes: int, may_see: bool = True) -> None:
        """`may_see`: whoever asked may know of it."""
        if resident_bytes:
            if not may_see:
                self._unseen.add(name)
            self._shown.append((name, resident_bytes))
            self._left_bytes -= resident_bytes if self._evicts else 0

    def lacks_bytes(self, not_shown: int = 0) -> int:
        """How much too little there is when all that may go has gone; 0: it is enough, or not all was looked at."""
        if not_shown or self._left_bytes <= 0:
            return 0
        gone_bytes = 0 if self._evicts else sum(size_bytes for _, size_bytes in self._shown)
        return max(0, self._left_bytes - gone_bytes)

    def names(self, not_shown: int = 0, held: Sequence[tuple[str, int]] = ()) -> list[str]:
        """Of those that go whole; none where it fits, or where only what fits is wanted.

        Args:
          held: by what may not go, as far as whoever asks may know of it: name and bytes.

        Raises ResourceExhaustedError, which says what to evict and what each would free.
        """
        if self._left_bytes <= 0:
            return [name for name, _ in self._shown]
        shown = self._shown[:_SAID]
        seen = [f"{name} ({of_bytes(size_bytes)})" for name, size_bytes in shown if name not in self._unseen]
        could = known_of(seen, len(shown) - len(seen))
        left = len(self._shown[_SAID:]) + not_shown
        more = f"; and {'up to ' if not_shown else ''}{left} more" if left else ""
        what = f"evict some of {could}{more}" if could else "nothing can be evicted: all else is pinned, or read"
        if could and (lacks_bytes := self.lacks_bytes(not_shown)):
            rest = ", ".join(f"{name} ({of_bytes(size_bytes)})" for name, size_bytes in held[:_SAID])
            what += f"; even all of that is {of_bytes(lacks_bytes)} too little"
            what += f": {rest} cannot go: pinned, or read" if rest else ""
        raise errors.ResourceExhaustedError(
            f"name: data set {self._name} needs {of_bytes(self._wanted_bytes)} and {of_bytes(self._free_bytes)} are "
            f"free on {self._where}: {what}"
        )
